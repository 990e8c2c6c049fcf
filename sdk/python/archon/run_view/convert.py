"""Plain values of messages of the contract."""

from __future__ import annotations

from typing import Any, Final

from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view.attempt import Failure
from archon.run_view.plan import Plan, PlanStep
from archon.run_view.states import TaskState

_STATES: Final[dict[int, TaskState]] = {
    number: TaskState[name.removeprefix("TASK_STATE_")] for name, number in common_pb2.TaskState.items()
}


def task_state(number: int) -> TaskState:
    """Returns the state with a number."""
    return _STATES.get(number, TaskState.UNKNOWN)


def enum_name(enum: Any, prefix: str, number: int) -> str:
    """Returns the name of a value in lower case and without its prefix; empty if it is unset, or unknown to this
    version."""
    if not number or number not in enum.values():
        return ""
    name: str = enum.Name(number)
    return name.removeprefix(prefix).lower()


def strategy_name(number: int) -> str:
    """Returns the name of a strategy, such as `pipeline`; empty if it is unset or unknown."""
    return enum_name(run_pb2.Strategy, "STRATEGY_", number)


def failure(message: failure_pb2.Failure) -> Failure | None:
    """Returns a failure; None if the field is not set."""
    return Failure(message.kind, message.message) if message.kind or message.message else None


def plan(message: run_pb2.Planned) -> Plan:
    """Returns the plan that an event puts in force."""
    steps = tuple(
        PlanStep(step.step_id, step.description, step.role, step.tool_name, tuple(step.dependencies))
        for step in message.plan.steps
    )
    return Plan(message.plan.revision, message.plan.goal, steps, message.reason)


def is_tool_call(activity: run_pb2.ToolActivity) -> bool:
    """Whether a tool event is the call of the tool, not its result."""
    return bool(activity.arguments_json or not activity.result_json)
