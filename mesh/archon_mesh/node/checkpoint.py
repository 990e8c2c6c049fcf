"""A coordinator's conversation, as the checkpoint that it leaves with what it delegates: a later attempt goes on from
there, rather than pay a model for it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon_mesh.core.messages import ChatMessage, ToolCall

MAX_CHECKPOINT: Final = 512 * 1024
"""Bytes. A longer conversation leaves none, and a later attempt goes on from the last that there is."""

_FORM: Final = "archon-conversation/1"


def saved(turns: Sequence[ChatMessage]) -> bytes:
    """The model's replies and what their calls came to, the last reply's calls still to be carried out. Empty where it
    is too long."""
    messages = [
        {"role": one.role, "content": one.content, "call": one.tool_call_id}
        | ({"calls": [[call.id, call.name, call.arguments_json] for call in one.tool_calls]} if one.tool_calls else {})
        for one in turns
    ]
    checkpoint = json.dumps({"form": _FORM, "messages": messages}).encode()
    return checkpoint if len(checkpoint) <= MAX_CHECKPOINT else b""


def restored(checkpoint: bytes) -> list[ChatMessage]:
    """What `saved` was given; nothing where there is no checkpoint, or one of another form: then all begins anew."""
    try:
        said = json.loads(checkpoint)
        turns = [_message(one) for one in said["messages"]] if said["form"] == _FORM else []
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []
    return turns if turns and turns[-1].tool_calls else []


def _message(said: Mapping[str, Any]) -> ChatMessage:
    calls = tuple(ToolCall(name=name, id=one, arguments_json=asked) for one, name, asked in said.get("calls", ()))
    return ChatMessage(said["role"], said["content"], tool_calls=calls, tool_call_id=said["call"])
