"""Plans as messages of the contract, converted to values."""

from __future__ import annotations

from typing import Final

from archon.api.common.v1 import common_pb2, plan_pb2
from archon.wire import described
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task
from archon_mesh.planning.parse import parse_context

_STATUS: Final = {
    common_pb2.TASK_STATE_COMPLETED: SubTaskStatus.COMPLETED,
    common_pb2.TASK_STATE_FAILED: SubTaskStatus.FAILED,
    common_pb2.TASK_STATE_REJECTED: SubTaskStatus.FAILED,
    common_pb2.TASK_STATE_CANCELED: SubTaskStatus.SKIPPED,
    common_pb2.TASK_STATE_WORKING: SubTaskStatus.EXECUTING,
    common_pb2.TASK_STATE_INPUT_REQUIRED: SubTaskStatus.EXECUTING,
}


def task_from_proto(plan: plan_pb2.Plan, query: str = "", task_id: str = "") -> Task:
    """Returns a plan with the statuses and results of its steps; a result is the text of the step's answer, or the
    message of its failure."""
    steps = tuple(map(_subtask, plan.steps))
    return Task(task_id, query, plan.goal or query, steps, parse_context(plan.context_json))


def _subtask(step: plan_pb2.PlanStep) -> SubTask:
    result = described(step.result) if step.result else step.failure.message or None
    return SubTask(
        step.step_id,
        step.description,
        step.expected_output,
        step.tool_name,
        parse_context(step.tool_args_json),
        tuple(step.dependencies),
        _STATUS.get(step.state, SubTaskStatus.PENDING),
        result,
        role=step.role,
        capability=step.capability,
        critical=step.critical,
        partial_input=step.partial_input,
        checkpoint=step.checkpoint,
        output_schema=parse_context(step.output_schema_json),
        expand=step.expand,
        expand_on_failure=step.expand_on_failure,
        exact=step.exact,
        quorum=step.quorum,
        delay_seconds=step.delay_seconds,
        delay_quantile=step.delay_quantile,
        decision=step.decision,
        timeout_seconds=step.timeout_seconds,
        assigned_by=step.assigned_by,
        bid_for=step.bid_for,
        confidence=step.confidence,
        estimated_seconds=step.estimated_seconds,
        estimated_cost_micro_usd=step.estimated_cost_micro_usd,
    )
