"""Plain values of messages of the contract."""

from __future__ import annotations

from archon.api.common.v1 import failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.types.enum_name import enum_name
from archon.types.failure import Failure


def strategy_name(number: int) -> str:
    """Returns the name of a strategy, such as `pipeline`; empty if it is unset or unknown."""
    return enum_name(run_pb2.Strategy, "STRATEGY_", number)


def failure(message: failure_pb2.Failure) -> Failure | None:
    """Returns a failure; None if the field is not set."""
    return Failure.from_proto(message) if message.kind or message.message else None


def is_tool_call(activity: run_pb2.ToolActivity) -> bool:
    """Whether a tool event is the call of the tool, not its result."""
    return bool(activity.arguments_json or not activity.result_json)
