"""Event types of an agent's run, with the names and in the order of AG-UI (https://docs.ag-ui.com/concepts/events).

AG-UI has no images; the image events follow its naming.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

EventHandler = Callable[["AgentEvent"], Any]
"""Receives every event of a run; sync or async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """Base of all events. `parent_run_id` is the run of the agent that called this one as a sub-agent, or None.

    `timestamp` is in seconds since the Unix epoch.
    """

    type: ClassVar[str] = ""
    run_id: str
    root_run_id: str
    parent_run_id: str | None
    agent_name: str
    timestamp: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """Returns AG-UI's JSON form: camelCase keys, milliseconds, bytes as base64, without fields that are None."""
        data: dict[str, Any] = {"type": self.type, "timestamp": round(self.timestamp * 1000)}
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if value is None or field_.name == "timestamp":
                continue
            data[_camel(field_.name)] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        return data


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(AgentEvent):
    type: ClassVar[str] = "STEP_STARTED"
    step_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(AgentEvent):
    type: ClassVar[str] = "STEP_FINISHED"
    step_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(AgentEvent):
    type: ClassVar[str] = "CUSTOM"
    name: str
    value: Any


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
