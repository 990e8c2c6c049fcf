"""The points of an agent's run at which hooks are called, and the decisions and values that each point allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ChatMessage
from archon_mesh.tools.result import ToolResult


class HookEvent(StrEnum):
    """The points; each value is the name of a middleware method."""

    QUERY_START = "query_start"
    QUERY_END = "query_end"
    BEFORE_AGENT = "before_agent"
    AFTER_AGENT = "after_agent"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TOOL_ERROR = "tool_error"
    BEFORE_FINAL_RESPONSE = "before_final_response"
    STREAM_CHUNK = "stream_chunk"


class HookDecision(StrEnum):
    """CONTINUE, optionally with a replacement value; RETRY the step; STOP, with the outcome; FAIL the run, with an
    error or its message."""

    CONTINUE = "continue"
    RETRY = "retry"
    STOP = "stop"
    FAIL = "fail"


_TEXT = (str, ChatMessage)

# The value types that each decision may carry, None for no value; a decision that is missing is illegal. STOP ends the
# run with its value as the answer, except before a tool: there the value is the call's result, and the tool is skipped.
LEGAL: Mapping[HookEvent, Mapping[HookDecision, tuple[type, ...] | None]] = {
    HookEvent.QUERY_START: {HookDecision.CONTINUE: (str,), HookDecision.STOP: (str,)},
    HookEvent.BEFORE_AGENT: {HookDecision.CONTINUE: None, HookDecision.STOP: (str,)},
    HookEvent.BEFORE_MODEL: {HookDecision.CONTINUE: None, HookDecision.STOP: _TEXT},
    HookEvent.AFTER_MODEL: {HookDecision.CONTINUE: (ChatMessage,), HookDecision.RETRY: None, HookDecision.STOP: _TEXT},
    HookEvent.BEFORE_TOOL: {HookDecision.CONTINUE: (dict,), HookDecision.STOP: (str, ToolResult)},
    HookEvent.AFTER_TOOL: {
        HookDecision.CONTINUE: (str, ToolResult),
        HookDecision.RETRY: None,
        HookDecision.STOP: (str,),
    },
    HookEvent.TOOL_ERROR: {
        HookDecision.CONTINUE: (str, ToolResult),
        HookDecision.RETRY: None,
        HookDecision.STOP: (str,),
    },
    HookEvent.BEFORE_FINAL_RESPONSE: {HookDecision.CONTINUE: _TEXT, HookDecision.RETRY: None, HookDecision.STOP: _TEXT},
    HookEvent.AFTER_AGENT: {HookDecision.CONTINUE: (str,)},
    HookEvent.QUERY_END: {HookDecision.CONTINUE: (str,)},
    HookEvent.STREAM_CHUNK: {HookDecision.CONTINUE: (str,)},
}
_NEEDS_VALUE = {(event, HookDecision.STOP) for event in HookEvent} - {
    (HookEvent.BEFORE_FINAL_RESPONSE, HookDecision.STOP)
}
_FAILURE = (str, Exception)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decision of a hook. A middleware method returns an Outcome, or None to continue."""

    decision: HookDecision = HookDecision.CONTINUE
    value: Any = None


def go_on(value: Any = None) -> Outcome:
    """Returns the decision CONTINUE, optionally with a value that replaces the current one."""
    return Outcome(HookDecision.CONTINUE, value)


def retry() -> Outcome:
    """Returns the decision RETRY: the step is repeated."""
    return Outcome(HookDecision.RETRY)


def stop(value: Any = None) -> Outcome:
    """Returns the decision STOP: the run ends with `value` as its answer; before a tool, `value` is the result of the
    call, and the tool is skipped."""
    return Outcome(HookDecision.STOP, value)


def fail(why: str | Exception) -> Outcome:
    """Returns the decision FAIL: the run fails with this error or message."""
    return Outcome(HookDecision.FAIL, why)


def check(event: HookEvent, decision: HookDecision, value: Any) -> None:
    """Raises InvalidArgument if the point does not allow the decision, or the decision does not take the value."""
    if decision is HookDecision.FAIL:
        if not isinstance(value, _FAILURE):
            raise InvalidArgument(f"{event}: FAIL takes an error or its message, not {_type_name(value)}")
        return
    legal = LEGAL[event]
    if decision not in legal:
        allowed = ", ".join(each.name for each in (*legal, HookDecision.FAIL))
        raise InvalidArgument(f"{event}: illegal decision {decision.name}; allowed: {allowed}")
    types = legal[decision]
    if value is None:
        if (event, decision) in _NEEDS_VALUE:
            raise InvalidArgument(f"{event}: {decision.name} needs a value of type {_type_names(types or ())}")
    elif types is None:
        raise InvalidArgument(f"{event}: {decision.name} takes no value, got {_type_name(value)}")
    elif not isinstance(value, types):
        raise InvalidArgument(f"{event}: {decision.name} takes {_type_names(types)}, got {_type_name(value)}")


def _type_name(value: object) -> str:
    return type(value).__name__


def _type_names(types: tuple[type, ...]) -> str:
    return " or ".join(each.__name__ for each in types)
