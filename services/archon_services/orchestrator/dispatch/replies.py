"""What an attempt is told of what it asked for: the answer to a delegation, more of the budget."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.core.run import RunState, Task
from archon_mesh.core.run.types import Failure, TaskState
from archon_services.orchestrator.convert import failure_to_proto
from archon_services.orchestrator.convert.write import amount_to_proto, state_to_proto
from archon_services.orchestrator.ports import AttemptStatus


def delegate_result(run: RunState, task: Task, delegation_id: str) -> session_pb2.OrchestratorFrame:
    """The child's result as it is journaled, or why there is none."""
    delegation = task.delegations[delegation_id]
    told = session_pb2.DelegateResult(delegation_id=delegation_id, memoized=delegation.memoized)
    if delegation.failure is not None:
        told.result.CopyFrom(_failed(delegation.failure))
    else:
        told.result.CopyFrom(result_of(run.tasks[delegation.child]))
    return session_pb2.OrchestratorFrame(delegate_result=told)


def result_of(task: Task) -> agent_pb2.TaskResult:
    """A task's result as the journal has it, also where it ended without one. That of a task that was stopped reads the
    same before and after it said what it had spent."""
    if isinstance(task.payload, agent_pb2.TaskResult) and task.state is not TaskState.CANCELED:
        said = task.payload
        result = agent_pb2.TaskResult(
            state=state_to_proto(task.state), output=said.output, used=said.used, metadata=said.metadata
        )
        if said.HasField("usage"):
            result.usage.CopyFrom(said.usage)
        if task.failure is not None:
            result.failure.CopyFrom(failure_to_proto(task.failure))
        return result
    result = _failed(task.failure or Failure("CANCELLED", "CANCELLED", "the task was cancelled"))
    result.state = state_to_proto(task.state if task.ended else TaskState.CANCELED)
    return result


def _failed(failure: Failure) -> agent_pb2.TaskResult:
    return agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED, failure=failure_to_proto(failure))


def budget_grant(task: Task, request_id: str) -> session_pb2.OrchestratorFrame:
    """What was reserved on request; absent where there was not so much left."""
    grant = session_pb2.BudgetGrant(request_id=request_id)
    reserved = task.requests[request_id]
    if reserved is not None:
        amount_to_proto(reserved, grant.budget)
    return session_pb2.OrchestratorFrame(budget_grant=grant)


def standing(run: RunState, task: Task, now: float) -> AttemptStatus:
    """How the current attempt stands, for whoever takes it up."""
    waits = {
        name
        for name, one in task.delegations.items()
        if not one.cancelled and one.failure is None and not run.tasks[one.child].answered
    }
    return AttemptStatus(remaining(run, task, now), task.applied, frozenset(waits))


def remaining(run: RunState, task: Task, now: float) -> float:
    """Seconds left for a task: its own, and of all that wait for it."""
    now = run.clock_stopped_since or now
    if not task.parent:
        return max(0.0, run.deadline - now)
    ends = [run.deadline, *(above.deadline for above in run.lineage(task) if above.deadline)]
    return max(0.0, min(ends) - now)
