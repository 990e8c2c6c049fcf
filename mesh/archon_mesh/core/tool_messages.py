"""Results of tool calls as messages to the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall

MAX_ERROR_CHARS: Final = 500
"""Longer error messages are cut."""

_FAILURE = re.compile(r"Error [A-Z_]+ \([A-Za-z0-9_]+\): ")


def tool_answer(call: ToolCall, text: str, files: Sequence[Media] = ()) -> ChatMessage:
    """Returns the message for a successful call, whose `text` has the labels of its files."""
    return ChatMessage("tool", text or "(an answer without text)", tool_call_id=call.id, files=files)


def tool_failure(call: ToolCall, code: str, reason: str, message: str) -> ChatMessage:
    """Returns the message for a failed call: the error on one line, cut to MAX_ERROR_CHARS."""
    text = " ".join(message.split())
    text = text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS].rstrip() + " ..."
    return ChatMessage("tool", f"Error {code} ({reason}): {text}", tool_call_id=call.id)


def has_failed(message: ChatMessage) -> bool:
    """Tells whether a tool message reports a failure."""
    return _FAILURE.match(message.content) is not None
