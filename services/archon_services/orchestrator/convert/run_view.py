"""Renders runs for callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.channel import MAX_RECEIVE_BYTES
from archon.errors import ResourceExhausted
from archon.telemetry.trace_parent import TraceParent
from archon.types.usage import COUNTS
from archon.wire import set_seconds
from archon_mesh.engine import RunState, Task
from archon_mesh.engine.effects import place_of
from archon_mesh.engine.events import ApprovalRequested, Planned
from archon_mesh.engine.question import ClosedQuestion
from archon_mesh.engine.types import Requirement, TaskState
from archon_services.orchestrator.convert import failure_to_proto
from archon_services.orchestrator.convert.breakpoints import SCHEMA, write_breakpoints
from archon_services.orchestrator.convert.people import write_terms
from archon_services.orchestrator.convert.plan import write_plan, write_planned
from archon_services.orchestrator.convert.run import STRATEGIES
from archon_services.orchestrator.convert.task import state_to_proto
from archon_services.orchestrator.journal import RunRow

MAX_RUN_BYTES: Final = MAX_RECEIVE_BYTES - 64 * 1024
"""The largest run in a response; a peer would refuse a larger one without a reason."""

MAX_SHOWN_BYTES: Final = 64 * 1024
"""The most of an answer that is shown with the question whether it is approved."""

MAX_CLOSED: Final = 100
"""The most closed questions of a run in a response; the newest are kept."""

MAX_COUNT: Final = 2**53 - 1
"""The largest number that every JSON reader keeps exactly."""


Standing = Callable[[Requirement], tuple[int, int]]
"""How many instances that meet a requirement are registered, and how many of them are connected."""


def run_to_proto(run: RunState, standing: Standing | None = None) -> run_pb2.Run:
    """Renders a run with its tasks and answers. With `standing` it says why a task waits for an instance."""
    out = run_pb2.Run()
    write_run(run, out, standing)
    return out


def write_run(run: RunState, out: run_pb2.Run, standing: Standing | None = None) -> None:
    """Writes a run with its tasks and answers into an empty message."""
    submission = run.submission
    assert submission is not None
    out.run_id, out.tenant, out.session_id = submission.run_id, submission.tenant, submission.session_id
    out.strategy, out.state = STRATEGIES[submission.strategy], state_to_proto(run.state)
    out.last_seq, out.paused, out.parent_run_id = run.last_seq, run.paused, submission.parent_run_id
    if isinstance(submission.goal, run_pb2.Submitted):
        out.goal.MergeFrom(submission.goal.goal)
        if submission.goal.HasField("trace"):
            parent = TraceParent.parse(submission.goal.trace.traceparent)
            out.trace_id = parent.trace_id if parent is not None else ""
        out.identity, out.actor = submission.goal.identity, submission.goal.actor
        if submission.goal.metadata:
            out.metadata.update(submission.goal.metadata)
    if run.breakpoints:
        write_breakpoints(run, out.breakpoints)
    for edge in submission.edges:
        out.edges.add(upstream=edge.upstream, downstream=edge.downstream, policy=edge.policy)
    set_seconds(out.create_time, run.create_time)
    if run.plan is not None and run.plan.steps:
        write_plan(run, out.plan)
    if run.ended:
        set_seconds(out.end_time, run.end_time)
        if run.failure is not None:
            out.failure.CopyFrom(failure_to_proto(run.failure))
    for closed in run.closed_questions[-MAX_CLOSED:]:
        _write_closed_question(run, closed, out.closed_questions.add())
    is_given = run.plan is not None and not run.plan.rules.has_planner
    for number, task in enumerate(run.tasks.values()):
        if is_given and not number:
            continue  # it stands for the planner that there is none of
        _write_task(run, task, out.tasks.add(), standing)
        if task.question and not run.ended:
            write_question(run, task, out.questions.add())
        if out.tasks[-1].HasField("usage"):
            _add_usage(out.usage, out.tasks[-1].usage)
        if isinstance(task.payload, agent_pb2.TaskResult) and task.result_seq in run.answer_seqs:
            answer = out.answers.add(role=task.role, task_id=task.task_id, step_id=task.step_id)
            answer.parts.MergeFrom(task.payload.output)


def write_question(run: RunState, task: Task, out: run_pb2.Question) -> None:
    """Writes the open question of a task into an empty message, with the answer or plan that waits."""
    assert run.submission is not None
    out.input_id, out.task_id, out.role, out.run_id = task.question, task.task_id, task.role, run.submission.run_id
    out.state = question_pb2.QUESTION_STATE_PENDING
    question = task.questions[-1]
    if isinstance(question, agent_pb2.TaskResult):
        request = question.input_request
        out.prompt.extend(request.prompt)
        out.schema_json, out.subject_json = request.schema_json, request.subject_json
    elif (held := task.held) is not None:
        _write_held(held, out)
    if (asking := task.asking) is not None:
        out.kind = question_pb2.QuestionKind.ValueType(asking.kind)
        write_terms(asking.terms, out.terms)
        out.approvers.extend(asking.approvers)
        set_seconds(out.create_time, asking.asked)
        if asking.deadline:
            set_seconds(out.expire_time, asking.deadline)


def _write_held(held: ApprovalRequested, out: run_pb2.Question) -> None:
    out.prompt.add(text=held.message)
    if held.breakpoint:
        out.schema_json = SCHEMA
    elif held.plan is not None:
        event = run_pb2.RunEvent()
        write_planned(event, Planned(held.task_id, 0, held.plan, held.changes))
        out.plan.CopyFrom(event.planned.plan)
    elif isinstance(held.payload, agent_pb2.TaskResult) and held.failure is None:
        size = 0
        for part in held.payload.output:
            size += part.ByteSize()
            if size > MAX_SHOWN_BYTES:
                break
            out.prompt.append(part)


def _write_closed_question(run: RunState, question: ClosedQuestion, out: run_pb2.Question) -> None:
    assert run.submission is not None
    out.input_id, out.task_id, out.role = question.input_id, question.task_id, question.role
    out.run_id, out.identity = run.submission.run_id, question.identity
    out.state = question_pb2.QuestionState.ValueType(question.state)
    if question.rule:
        out.terms.rule = question.rule
    set_seconds(out.create_time, question.asked)


def _write_task(run: RunState, task: Task, out: run_pb2.Task, standing: Standing | None) -> None:
    out.task_id, out.role, out.state = task.task_id, task.role, state_to_proto(task.state)
    out.attempt, out.instance_id, out.parent_task_id = task.attempt, task.instance_id, task.parent
    out.result_seq, out.memory_version = task.result_seq, task.memory_version
    if task.step_id:
        out.step_id = task.step_id
        out.predecessors.extend(task.predecessors)
    if waiting_for := _waiting_for(run, task, standing):
        out.waiting_for = waiting_for
    if task.start_time:
        set_seconds(out.start_time, task.start_time)
    if task.end_time:
        set_seconds(out.end_time, task.end_time)
    held = task.held.payload if task.held is not None and task.held.failure is None else None
    for result in (*task.questions, *task.failures, held, task.payload):
        if isinstance(result, agent_pb2.TaskResult) and result.HasField("usage"):
            _add_usage(out.usage, result.usage)
    if isinstance(task.payload, agent_pb2.TaskResult) and task.payload.HasField("resolution"):
        out.resolution.CopyFrom(task.payload.resolution)
    if task.failure is not None:
        out.failure.CopyFrom(failure_to_proto(task.failure))


def _add_usage(total: common_pb2.Usage, usage: common_pb2.Usage) -> None:
    """Adds counts, which agents report themselves; the sum stays within the range of a field."""
    for name in COUNTS:
        if count := getattr(usage, name):
            setattr(total, name, min(MAX_COUNT, getattr(total, name) + max(0, count)))
    if usage.estimated:
        total.estimated = True


def _waiting_for(run: RunState, task: Task, standing: Standing | None) -> str:
    if task.ended or run.ended:
        return ""
    if task.question:
        return "a person's answer"
    if run.paused and run.ready(task, paused=False):
        return "the run to be resumed"
    if task.live:
        children = [run.tasks[call.child] for call in task.delegations.values() if call.child and not call.cancelled]
        roles = sorted({child.label for child in children if not child.answered})
        return f"the answer of {', '.join(roles)}" if roles else ""
    for name in task.predecessors:
        if run.tasks[name].state is not TaskState.COMPLETED:
            return f"the answer of {run.tasks[name].label}"
    assert run.submission is not None
    want = place_of(run, task).want
    capability = f" that has {want.capability}" if want.capability else ""
    version = f" {want.version}" if want.version else ""
    reason = f" ({_why_none(*standing(want))})" if standing is not None else ""
    return f"an instance of {want.role}{version}{capability} with room{reason}"


def _why_none(registered: int, connected: int) -> str:
    """Why no instance has room."""
    if not registered:
        return "none is registered"
    if not connected:
        return f"{registered:,} registered, none reachable" if registered > 1 else "the only one is not reachable"
    return f"all {connected:,} are busy" if connected > 1 else "the only one is busy"


def row_to_proto(row: RunRow) -> run_pb2.Run:
    """Renders a run as in a list, without tasks and answers."""
    out = run_pb2.Run(
        run_id=row.run_id,
        tenant=row.tenant,
        session_id=row.session_id,
        state=state_to_proto(TaskState(row.state)),
        last_seq=row.last_seq,
    )
    set_seconds(out.create_time, row.created_at)
    if row.ended_at:
        set_seconds(out.end_time, row.ended_at)
    return out


def trimmed(run: run_pb2.Run, limit: int = MAX_RUN_BYTES) -> run_pb2.Run:
    """Returns the run; if it has more than `limit` bytes, without its content and marked as truncated. For the response
    to a call that has changed something: it must not look as if it had failed."""
    if run.ByteSize() <= limit:
        return run
    out = run_pb2.Run()
    out.CopyFrom(run)
    out.truncated = True
    for field in ("goal", "answers", "metadata", "closed_questions", "questions", "tasks", "plan", "edges"):
        out.ClearField(field)
        if out.ByteSize() <= limit:
            break
    return out


def bounded(run: run_pb2.Run) -> run_pb2.Run:
    """Returns the run. Raises ResourceExhausted / MESSAGE_TOO_LARGE if it does not fit in a response."""
    size = run.ByteSize()
    if size > MAX_RUN_BYTES:
        raise ResourceExhausted(
            f"run {run.run_id} has {size:,} bytes, a response takes {MAX_RUN_BYTES:,}: "
            "watch it to get each result by itself",
            reason="MESSAGE_TOO_LARGE",
            metadata={"run_id": run.run_id, "size": str(size), "limit": str(MAX_RUN_BYTES)},
        )
    return run
