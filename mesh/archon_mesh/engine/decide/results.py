"""Decides about the result of an attempt."""

from __future__ import annotations

from dataclasses import replace

from archon_mesh.core.people import NO_TERMS, QuestionKind
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import approval
from archon_mesh.engine.decide.human_input import question_id, refusal
from archon_mesh.engine.decide.plan_reply import AcceptedPlan, judge, judge_alignment
from archon_mesh.engine.decide.retries import Kind, kind_of, next_try, raised, recovery_exhausted
from archon_mesh.engine.decide.task_end import end_with_result
from archon_mesh.engine.decide.termination import ending, then_end
from archon_mesh.engine.decide.timeouts import run_timeout, task_timeout
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import CONVERSATION_MOVED, PLAN_FAILED, Failure, TaskState


def result(run: RunState, result: inp.ResultIn, now: float) -> list[ev.Event]:
    """The attempt has ended: its task and possibly the run end with it, it is retried, or a person is asked."""
    if run.ended or run.submission is None or _repeated(run, result):
        return []
    recorded: list[ev.Event] = [ev.Recorded(result.task_id, result.attempt, result.records)] if result.records else []
    task = run.current(result.task_id, result.attempt)
    if task is None:
        return [*recorded, ev.Discarded(result.task_id, result.attempt, "ABORTED", result.payload)]
    if run.ending is not None:
        return then_end(run, [*recorded, _stopped(run, task, result)], {task.task_id})
    if task.stopping:
        return [*recorded, _stopped(run, task, result)]
    if _by_the_runs_deadline(run, result, now):
        failure = run_timeout(run, now)
        events = [*recorded, ending(failure), _stopped(run, task, result)]
        return then_end(run, events, {task.task_id}, TaskState.FAILED, failure)
    accepted: AcceptedPlan | None = None
    if task.align:
        result, accepted = _verdict(run, result)
    elif run.plan is not None and task.task_id == run.plan.planner and result.state is TaskState.COMPLETED:
        result, accepted = _judged(run, task, result)
    question = _question(task, result)
    if question is not None:
        return [*recorded, question]
    event = _outcome(run, task, result, now)
    if (request := approval(run, task, result, event, accepted)) is not None:
        return [*recorded, request]
    if not isinstance(event, ev.ResultReceived):
        return [*recorded, event]
    events = [*recorded, event]
    if result.items and event.publish:
        events += [ev.ItemPublished(task.task_id, task.attempt, task.role, 0, item) for item in result.items]
    return end_with_result(run, task, events, event, accepted if event.state is TaskState.COMPLETED else None)


def _judged(run: RunState, task: Task, result: inp.ResultIn) -> tuple[inp.ResultIn, AcceptedPlan | None]:
    """The planner's result with its plan; a reply that is refused is a failed result."""
    if isinstance(result, inp.PlanIn):
        verdict = judge(run, task, result)
    else:
        verdict = Failure("FAILED_PRECONDITION", PLAN_FAILED, "the planner's reply holds no plan")
    if isinstance(verdict, AcceptedPlan):
        return result, verdict
    failed = replace(result, state=TaskState.FAILED, failure=verdict)
    return failed, None


def _verdict(run: RunState, result: inp.ResultIn) -> tuple[inp.ResultIn, AcceptedPlan | None]:
    """The result of a check of the plan, and the plan that replaces the one in force, if there is one. It is not
    published, and asks no person: the plan goes on without it."""
    result = replace(result, publish=False)
    if result.state is TaskState.INPUT_REQUIRED:
        failure = Failure(
            "FAILED_PRECONDITION", PLAN_FAILED, "no person is asked whether a plan still leads to its goal"
        )
        return replace(result, state=TaskState.FAILED, failure=failure), None
    if result.state is not TaskState.COMPLETED or not isinstance(result, inp.PlanIn):
        return result, None
    return result, judge_alignment(run, result)


def _repeated(run: RunState, result: inp.ResultIn) -> bool:
    """Whether this result was decided before and is sent again."""
    task = run.tasks.get(result.task_id)
    if task is None or task.attempt != result.attempt:
        return False
    was_question_or_retry = bool(task.questions or task.retries or task.version_conflicts)
    return bool(task.result_seq) or (was_question_or_retry and not task.live)


def _by_the_runs_deadline(run: RunState, result: inp.ResultIn, now: float) -> bool:
    """Whether the attempt failed because the time of the whole run is over: the agent's timer was first."""
    failure = result.failure
    over = failure is not None and failure.code == "DEADLINE_EXCEEDED" and not run.clock_stopped_since
    return over and now >= run.deadline


def _question(task: Task, result: inp.ResultIn) -> ev.InputRequested | None:
    if result.state is not TaskState.INPUT_REQUIRED or refusal(task, result.input_id) is not None:
        return None
    kind, terms = (
        (result.kind, result.terms) if isinstance(result, inp.QuestionIn) else (QuestionKind.UNSPECIFIED, NO_TERMS)
    )
    return ev.InputRequested(
        task.task_id,
        task.attempt,
        task.role,
        question_id(task, result.input_id),
        result.payload,
        result.spent,
        result.checkpointed,
        kind=kind,
        terms=terms,
    )


def _outcome(run: RunState, task: Task, result: inp.ResultIn, now: float) -> ev.ResultReceived | ev.Retried:
    """The task's result, or a retry after a transient failure or a conflict of its conversation."""
    state, failure = _final_state(task, result)
    if failure is not None and failure.code == "DEADLINE_EXCEEDED" and task.deadline and now >= task.deadline:
        failure = task_timeout(task)  # the agent's own timer was first: its caller sees the same error
    failure = failure and raised(run, failure)
    due: float | None = None
    if state is TaskState.FAILED and failure is not None and not task.align:
        due = _retry_time(run, task, failure, now)
    stores_turn = result.has_turn and state is TaskState.COMPLETED and task.conversation_version is not None
    if stores_turn and result.turn_too_large:
        message = f"the turn of {task.role} is too large for its conversation"
        state, failure = TaskState.FAILED, Failure("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE", message)
    elif stores_turn and _conflicts(run, task, result):
        state, failure = TaskState.FAILED, _conflict(run, task)
        due = next_try(Kind.CONFLICT, task.version_conflicts + 1, None, now)
    if due is not None and failure is not None:
        return ev.Retried(task.task_id, task.attempt, task.role, failure, due, result.spent, result.payload)
    completed = state is TaskState.COMPLETED
    return ev.ResultReceived(
        task.task_id,
        task.attempt,
        task.role,
        state,
        result.payload,
        failure,
        result.publish and completed,
        result.spent,
        stores_turn and completed,
        result.confidence,
    )


def _conflicts(run: RunState, task: Task, result: inp.ResultIn) -> bool:
    """Whether the conversation has moved on since the dispatch, or the agent based its turn on another version."""
    base = task.conversation_version or 0
    moved = result.version_conflict or run.conversation_versions.get(task.role, base) > base
    return moved or (result.read_version > 0 and result.read_version != base)


def _conflict(run: RunState, task: Task) -> Failure:
    assert run.submission is not None
    session_id = run.submission.session_id
    return Failure(
        "ABORTED",
        CONVERSATION_MOVED,
        f"conflict {task.version_conflicts + 1} in the conversation of {task.role} in session {session_id}: "
        "another turn was stored first",
        (("role", task.role), ("session_id", session_id)),
    )


def _retry_time(run: RunState, task: Task, failure: Failure, now: float) -> float | None:
    """The earliest time of a retry (wall seconds); None if the failure is permanent or the retries are used up."""
    if recovery_exhausted(run.recovered) is not None:
        return None
    tries = run.plan.rules.max_attempts if run.plan is not None and task.step_id else 0
    return next_try(kind_of(failure), task.retries + 1, failure.retry_delay, now, tries)


def _stopped(run: RunState, task: Task, result: inp.ResultIn) -> ev.Event:
    """The last event of an attempt that was ordered to stop. A failure ends its task, with its spending; an answer came
    too late and is discarded."""
    if result.state is not TaskState.COMPLETED:
        return ev.ResultReceived(
            task.task_id,
            task.attempt,
            task.role,
            TaskState.CANCELED,
            result.payload,
            task.failure,
            spent=result.spent,
        )
    failure = run.failure if run.ending is not None else task.failure
    return ev.Discarded(task.task_id, task.attempt, failure.reason if failure else "CANCELLED", result.payload)


def _final_state(task: Task, result: inp.ResultIn) -> tuple[TaskState, Failure | None]:
    """The final state of a result; a state that cannot be served becomes a failure."""
    match result.state:
        case TaskState.COMPLETED:
            return result.state, None
        case TaskState.FAILED | TaskState.REJECTED:
            return result.state, result.failure or Failure("UNKNOWN", "UNKNOWN", "the agent gave no reason")
        case TaskState.CANCELED:
            failure = Failure("CANCELLED", "CANCELLED", "the agent cancelled the task itself")
            return TaskState.FAILED, result.failure or failure
        case TaskState.INPUT_REQUIRED:
            return TaskState.FAILED, refusal(task, result.input_id)
    message = f"a result with state {result.state.name} is not served by this orchestrator"
    return TaskState.FAILED, Failure("UNIMPLEMENTED", "NOT_SERVED", message)
