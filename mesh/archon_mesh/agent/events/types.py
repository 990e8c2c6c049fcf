"""What a front end sees of a run, by the names and in the order of AG-UI (https://docs.ag-ui.com/concepts/events);
images are named alike, AG-UI has none."""

from __future__ import annotations

import base64
import inspect
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.hooks.points import HookContext

_log = logging.getLogger(__name__)

Listener = Callable[["AgentEvent"], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """`run_id` is the agent's run, `parent_run_id` that of whoever called it as a sub-agent; `timestamp` in wall
    seconds."""

    type: ClassVar[str] = ""
    run_id: str
    root_run_id: str
    parent_run_id: str | None
    agent_name: str
    timestamp: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """As AG-UI writes it: camelCase, milliseconds, bytes as base64, nothing that is None."""
        out: dict[str, Any] = {"type": self.type, "timestamp": round(self.timestamp * 1000)}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None or one.name == "timestamp":
                continue
            out[_camel(one.name)] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(AgentEvent):
    type: ClassVar[str] = "RUN_STARTED"
    thread_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(AgentEvent):
    type: ClassVar[str] = "RUN_FINISHED"
    thread_id: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError(AgentEvent):
    type: ClassVar[str] = "RUN_ERROR"
    message: str
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMessageStart(AgentEvent):
    type: ClassVar[str] = "TEXT_MESSAGE_START"
    message_id: str
    role: str = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMessageContent(AgentEvent):
    type: ClassVar[str] = "TEXT_MESSAGE_CONTENT"
    message_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMessageEnd(AgentEvent):
    type: ClassVar[str] = "TEXT_MESSAGE_END"
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingTextMessageStart(AgentEvent):
    type: ClassVar[str] = "THINKING_TEXT_MESSAGE_START"
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingTextMessageContent(AgentEvent):
    type: ClassVar[str] = "THINKING_TEXT_MESSAGE_CONTENT"
    message_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingTextMessageEnd(AgentEvent):
    type: ClassVar[str] = "THINKING_TEXT_MESSAGE_END"
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStart(AgentEvent):
    type: ClassVar[str] = "TOOL_CALL_START"
    tool_call_id: str
    tool_call_name: str
    parent_message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallArgs(AgentEvent):
    type: ClassVar[str] = "TOOL_CALL_ARGS"
    tool_call_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnd(AgentEvent):
    type: ClassVar[str] = "TOOL_CALL_END"
    tool_call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResult(AgentEvent):
    type: ClassVar[str] = "TOOL_CALL_RESULT"
    tool_call_id: str
    message_id: str
    content: str
    status: str = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMessageStart(AgentEvent):
    type: ClassVar[str] = "IMAGE_MESSAGE_START"
    message_id: str
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMessageContent(AgentEvent):
    type: ClassVar[str] = "IMAGE_MESSAGE_CONTENT"
    message_id: str
    delta: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMessageEnd(AgentEvent):
    type: ClassVar[str] = "IMAGE_MESSAGE_END"
    message_id: str


class Emitter:
    """Brings events to all who listen, in order. One that raises is logged by its name, and changes nothing."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners = list(listeners)

    async def emit(self, event: AgentEvent) -> None:
        """Returns when all have seen it."""
        for listener in self.listeners:
            try:
                done = listener(event)
                if inspect.isawaitable(done):
                    await done
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is nobody's business but its own
                name = getattr(listener, "__qualname__", type(listener).__name__)
                _log.exception("the event handler %s raised %s at %s", name, type(error).__name__, event.type)


class AgentEventsMiddleware(Middleware):
    """`on_event` gets every event of the agent's runs, and of its sub-agents'. `session_id` is their thread's id."""

    def __init__(self, session_id: str, on_event: Listener) -> None:
        self.session_id = session_id
        self.on_event = on_event

    def query_start(self, hook: HookContext) -> None:
        """From here on somebody listens; a sub-agent's events come by its caller's."""
        if self.on_event not in hook.state.emitter.listeners:
            hook.state.emitter.listeners.append(self.on_event)
        hook.state.thread_id = self.session_id


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
