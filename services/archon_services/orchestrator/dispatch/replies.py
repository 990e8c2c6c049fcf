"""The replies to an attempt's requests, its remaining time, and its status for an adoption."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine import RunState, Task
from archon_mesh.engine.types import Failure, TaskState
from archon_services.orchestrator.convert import failure_to_proto
from archon_services.orchestrator.convert.budget import amount_to_proto
from archon_services.orchestrator.convert.people import given_from_payload
from archon_services.orchestrator.convert.task import state_to_proto
from archon_services.orchestrator.ports import AttemptStatus


def delegate_result(run: RunState, task: Task, delegation_id: str) -> session_pb2.OrchestratorFrame:
    """The journaled result of a delegation, or the failure with which it was refused."""
    delegation = task.delegations[delegation_id]
    reply = session_pb2.DelegateResult(delegation_id=delegation_id, memoized=delegation.memoized)
    if delegation.failure is not None:
        reply.result.CopyFrom(_failed(delegation.failure))
    else:
        reply.result.CopyFrom(result_of(run.tasks[delegation.child]))
    return session_pb2.OrchestratorFrame(delegate_result=reply)


def result_of(task: Task) -> agent_pb2.TaskResult:
    """The result of a task that has ended or is stopping.

    The result of a cancelled task does not depend on whether its attempt has reported its usage.
    """
    if isinstance(task.payload, agent_pb2.TaskResult) and task.state is not TaskState.CANCELED:
        payload = task.payload
        result = agent_pb2.TaskResult(
            state=state_to_proto(task.state), output=payload.output, used=payload.used, metadata=payload.metadata
        )
        if payload.HasField("usage"):
            result.usage.CopyFrom(payload.usage)
        if task.failure is not None:
            result.failure.CopyFrom(failure_to_proto(task.failure))
        return result
    result = _failed(task.failure or Failure("CANCELLED", "CANCELLED", "the task was cancelled"))
    result.state = state_to_proto(task.state if task.ended else TaskState.CANCELED)
    return result


def _failed(failure: Failure) -> agent_pb2.TaskResult:
    return agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED, failure=failure_to_proto(failure))


def budget_grant(task: Task, request_id: str) -> session_pb2.OrchestratorFrame:
    """The amount reserved on request; if too little was left the failure, and no budget."""
    grant = session_pb2.BudgetGrant(request_id=request_id)
    reserved = task.requests[request_id]
    if isinstance(reserved, Failure):
        grant.failure.CopyFrom(failure_to_proto(reserved))
    elif reserved is not None:
        amount_to_proto(reserved, grant.budget)
    return session_pb2.OrchestratorFrame(budget_grant=grant)


def given_input(task: Task, input_id: str) -> session_pb2.OrchestratorFrame:
    """A person's answer to a question of the current attempt, under the agent's id of the question."""
    given = session_pb2.Input()
    write_answer(task, given_from_payload(task.answers[input_id]), given)
    return session_pb2.OrchestratorFrame(input=given)


def message_result(task: Task, seq: int) -> session_pb2.OrchestratorFrame:
    """The reply to the message of event `seq`: the journal has it, or it was refused."""
    message_id, failure = task.replies[seq]
    result = session_pb2.MessageResult(message_id=message_id)
    if failure is not None:
        result.failure.CopyFrom(failure_to_proto(failure))
    else:
        result.seq = task.sent[message_id]
    return session_pb2.OrchestratorFrame(message_result=result)


def write_answer(task: Task, answer: run_pb2.InputGiven, out: session_pb2.Input | agent_pb2.ResumedInput) -> None:
    """Writes a person's answer, under the agent's id of its question."""
    out.input_id = answer.input_id.removeprefix(f"{task.task_id}/")
    out.parts.MergeFrom(answer.parts)
    out.decision, out.identity = answer.decision, answer.identity


def attempt_status(run: RunState, task: Task, now: float, *, released: bool = False) -> AttemptStatus:
    """The journaled status of the current attempt, for its adoption. `now` is in wall seconds, `released` as in
    AttemptStatus."""
    outstanding = {
        delegation_id
        for delegation_id, delegation in task.delegations.items()
        if not delegation.cancelled and delegation.failure is None and not run.tasks[delegation.child].answered
    }
    return AttemptStatus(remaining(run, task, now), task.applied, frozenset(outstanding), released)


def remaining(run: RunState, task: Task, now: float) -> float:
    """The seconds until the first deadline of the task, its ancestors and the run. `now` is in wall seconds."""
    now = run.clock_stopped_since or now
    if not task.parent:
        return max(0.0, run.deadline - now)
    deadlines = [run.deadline, *(ancestor.deadline for ancestor in run.lineage(task) if ancestor.deadline)]
    return max(0.0, min(deadlines) - now)
