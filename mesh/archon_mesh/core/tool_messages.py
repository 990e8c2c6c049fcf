"""What a tool call came to, as the message that a model reads."""

from __future__ import annotations

import re
from typing import Final

from archon_mesh.core.messages import ChatMessage, ToolCall

MESSAGE_SHOWN: Final = 500
"""Characters of an error's message."""

_FAILED = re.compile(r"Error [A-Z_]+ \([A-Za-z0-9_]+\): ")


def tool_answer(call: ToolCall, text: str) -> ChatMessage:
    """What the tool answered."""
    return ChatMessage("tool", text or "(an answer without text)", tool_call_id=call.id)


def tool_failure(call: ToolCall, code: str, reason: str, message: str) -> ChatMessage:
    """That the call failed, and why: short, so that the model can go on."""
    said = " ".join(message.split())
    said = said if len(said) <= MESSAGE_SHOWN else said[:MESSAGE_SHOWN].rstrip() + " ..."
    return ChatMessage("tool", f"Error {code} ({reason}): {said}", tool_call_id=call.id)


def has_failed(message: ChatMessage) -> bool:
    """Whether a tool message tells of a failure."""
    return _FAILED.match(message.content) is not None
