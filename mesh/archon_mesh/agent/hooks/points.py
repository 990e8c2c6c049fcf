"""What may be decided at each point of an agent's run, and by what kind of value: one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.tools.result import ToolResult

if TYPE_CHECKING:
    from archon_mesh.agent.agent import Agent
    from archon_mesh.agent.loop.model_request import ModelParams
    from archon_mesh.agent.state.agent_state import AgentState


class HookEvent(StrEnum):
    """The points, each the name of a middleware's method."""

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
    """CONTINUE, with a value where the point takes one; RETRY what was just done; STOP, with the outcome of what the
    point is about; FAIL the run, with an error or its message."""

    CONTINUE = "continue"
    RETRY = "retry"
    STOP = "stop"
    FAIL = "fail"


_TEXT = (str, ChatMessage)

# What each decision may bring; one that isn't there is illegal. None: no value. STOP ends the run with an answer, but
# before a tool: there it is the call's result, and the tool isn't called.
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
    """What a hook decided. A middleware's method returns one, or None to go on."""

    decision: HookDecision = HookDecision.CONTINUE
    value: Any = None


def go_on(value: Any = None) -> Outcome:
    """CONTINUE, with something in place of what there is."""
    return Outcome(HookDecision.CONTINUE, value)


def retry() -> Outcome:
    """RETRY."""
    return Outcome(HookDecision.RETRY)


def stop(value: Any = None) -> Outcome:
    """STOP."""
    return Outcome(HookDecision.STOP, value)


def fail(why: str | Exception) -> Outcome:
    """FAIL."""
    return Outcome(HookDecision.FAIL, why)


def check(event: HookEvent, decision: HookDecision, value: Any) -> None:
    """Raises InvalidArgument for what may not be decided there."""
    if decision is HookDecision.FAIL:
        if not isinstance(value, _FAILURE):
            raise InvalidArgument(f"{event}: FAIL takes an error or its message, not {_kind(value)}")
        return
    legal = LEGAL[event]
    if decision not in legal:
        allowed = ", ".join(one.name for one in (*legal, HookDecision.FAIL))
        raise InvalidArgument(f"{event}: {decision.name} may not be decided there; allowed are {allowed}")
    kinds = legal[decision]
    if value is None:
        if (event, decision) in _NEEDS_VALUE:
            raise InvalidArgument(f"{event}: {decision.name} needs a value: {_names(kinds or ())}")
    elif kinds is None:
        raise InvalidArgument(f"{event}: {decision.name} takes no value, {_kind(value)} was given")
    elif not isinstance(value, kinds):
        raise InvalidArgument(f"{event}: {decision.name} takes {_names(kinds)}, {_kind(value)} was given")


def _kind(value: object) -> str:
    return type(value).__name__


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


@dataclass(slots=True)
class HookContext:
    """What a hook sees. Of the last lines only what the point is about is there; `value` is what stands so far: the
    message of the query, the answer, a chunk's text."""

    event: HookEvent
    agent: Agent
    state: AgentState
    value: str = ""
    params: ModelParams | None = None
    message: ChatMessage | None = None
    """The assistant's."""
    tool_call: ToolCall | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    tool_result: ToolResult | None = None
    error: BaseException | None = None

    @property
    def iteration(self) -> int:
        """From 1; 0 before the loop."""
        return self.state.current_iteration
