"""The AssignTask frame of a dispatch."""

from __future__ import annotations

from collections.abc import Sequence

from archon.agent.values import SESSION_KEY
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.lineage.uses import INPUT_PREFIX
from archon.wire import set_seconds
from archon_mesh.core.awareness import awareness_message
from archon_mesh.engine import RunState, Task
from archon_mesh.engine.decide.budget import limits
from archon_mesh.engine.types import FINAL_RESPONSE_ONLY
from archon_services.orchestrator.convert.breakpoints import call_breakpoints, edited_input
from archon_services.orchestrator.convert.budget import amount_to_proto
from archon_services.orchestrator.convert.people import given_from_payload
from archon_services.orchestrator.convert.task import state_to_proto
from archon_services.orchestrator.dispatch.context import write_context_item
from archon_services.orchestrator.dispatch.replies import remaining, result_of, write_answer
from archon_services.orchestrator.dispatch.step import write_plan_request, write_step
from archon_services.orchestrator.observability.context import write_attempt_trace

MAX_RESUME_BYTES = 1024 * 1024
"""The size from which on the results of earlier delegations are left out."""


def assign_task(run: RunState, task: Task, now: float, history: Sequence[bytes] = ()) -> agent_pb2.AssignTask:
    """The task with exactly the context that its dispatch recorded. `now` is in wall seconds, `history` holds the turns
    of its conversation version, serialised."""
    assert run.submission is not None
    submitted = run.submission.goal
    assigned = agent_pb2.AssignTask(idempotency_key=task.task_id)
    if isinstance(submitted, run_pb2.Submitted):
        _set_input(run, task, submitted, assigned)
        if task.edited is not None:
            _edit_input(task, assigned)
    write_attempt_trace(run, task, assigned)
    if (task.parent or run.submission.budget.limited) and any(limits(run, task)):
        amount_to_proto(task.reserved, assigned.budget)
    if session_id := run.submission.session_id:
        if task.step_id:  # steps of one role share no conversation, only the memory of the session
            assigned.metadata[SESSION_KEY] = session_id
        else:
            assigned.conversation_id = f"{session_id}/{task.role}"
    if task.conversation_version is not None:
        assigned.conversation_version = task.conversation_version
        for turn in history:
            assigned.MergeFromString(turn)
    set_seconds(assigned.remaining, remaining(run, task, now))
    for context in task.context:
        write_context_item(run, context, assigned.context.add())
    if task.parent:
        assigned.delegation_chain.extend(ancestor.role for ancestor in run.lineage(task)[:-1])
    if policies := {
        edge.policy for edge in run.submission.edges if edge.policy > FINAL_RESPONSE_ONLY and edge.upstream == task.role
    }:
        assigned.publish_policies.extend(map(common_pb2.PropagationPolicy.ValueType, sorted(policies)))
    if run.submission.targets:
        _set_targets(run, task, assigned)
    if run.breakpoints:
        assigned.breakpoints.extend(call_breakpoints(run, task))
    if task.children or task.checkpoint is not None or task.inputs:
        _set_resume(run, task, assigned)
    return assigned


def _set_input(run: RunState, task: Task, submitted: run_pb2.Submitted, assigned: agent_pb2.AssignTask) -> None:
    """The goal of the run, or the input of a step or of a delegated task."""
    if submitted.metadata:
        assigned.metadata.update(submitted.metadata)
        for key in [key for key in submitted.metadata if key.startswith(INPUT_PREFIX)]:
            del assigned.metadata[key]
    if task.step_id:
        write_step(run, task, assigned)
        return
    is_fork = run.submission is not None and bool(run.submission.parent_run_id)
    if is_fork and not task.parent and (own := submitted.metadata.get(f"{INPUT_PREFIX}{task.role}")):
        assigned.input.add(text=own)
        return
    delegated = task.payload_in if isinstance(task.payload_in, run_pb2.Delegated) else None
    assigned.input.MergeFrom(submitted.goal if delegated is None else delegated.input)
    if run.plan is not None and not task.parent:
        write_plan_request(run, task, assigned)


def _edit_input(task: Task, assigned: agent_pb2.AssignTask) -> None:
    """Puts the input that a person gave at a breakpoint in the place of the goal, or of the description of a step: the
    parts after it stay."""
    text = edited_input(task.edited)
    if text is None:
        return
    further = list(assigned.input[1:]) if task.step_id or assigned.HasField("plan_request") else []
    del assigned.input[:]
    assigned.input.add(text=text)
    assigned.input.extend(further)


def _set_targets(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """For a coordinator: the roles that it can delegate to, and the dependencies among them."""
    assert run.submission is not None
    if not any(target.role == task.role and target.coordinator for target in run.submission.targets):
        return
    lineage = {ancestor.role for ancestor in run.lineage(task)}
    targets = [target for target in run.submission.targets if target.role not in lineage]
    order = [target.role for target in targets]
    edges = [
        (edge.upstream, edge.downstream)
        for edge in run.submission.edges
        if {edge.upstream, edge.downstream} <= {*order}
    ]
    assigned.awareness = awareness_message(edges, order)
    for target in targets:
        assigned.delegation_targets.add(role=target.role, description=target.description)


def _set_resume(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """Sets the state that earlier attempts left: checkpoint, answers of people, delegations.

    Results that exceed `MAX_RESUME_BYTES` together are left out; an agent receives them if it delegates again.
    """
    match task.checkpoint:
        case run_pb2.Delegated() | agent_pb2.TaskResult():
            assigned.resume.checkpoint = task.checkpoint.checkpoint
        case run_pb2.CheckpointTaken():
            assigned.resume.checkpoint = task.checkpoint.data
    for payload in task.inputs:
        answer = given_from_payload(payload)
        assigned.resume.inputs.extend(answer.parts)
        write_answer(task, answer, assigned.resume.answers.add())
    size = 0
    for memo_key, child_id in task.children.items():
        child = run.tasks[child_id]
        delegation = assigned.resume.delegations.add(memo_key=memo_key, state=state_to_proto(child.state))
        if isinstance(child.payload_in, run_pb2.Delegated):
            delegation.input.MergeFrom(child.payload_in.input)
        if child.answered:
            delegation.result.CopyFrom(result_of(child))
        size += delegation.ByteSize()
        if size > MAX_RESUME_BYTES:
            delegation.ClearField("result")
            delegation.ClearField("input")
