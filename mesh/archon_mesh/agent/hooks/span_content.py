"""Messages as the attributes `gen_ai.input.messages` and `gen_ai.output.messages` of spans: JSON by the schemas of
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from archon_mesh.core.masking import masked_arguments
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import ModelReply


def one_message(role: str, text: str) -> str:
    """Returns the attribute for a message that is a text."""
    return json.dumps([{"role": role, "parts": [_text(text)]}], ensure_ascii=False)


def input_messages(messages: Iterable[ChatMessage]) -> str:
    """Returns the attribute for the messages of a request; labels stand for their files."""
    return json.dumps([_message(message) for message in messages], ensure_ascii=False)


def output_messages(reply: ModelReply) -> str:
    """Returns the attribute for a reply."""
    parts = _parts(reply.text, reply.tool_calls)
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason}], ensure_ascii=False)


def _message(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        answer = {"type": "tool_call_response", "id": message.tool_call_id or "", "response": message.described}
        return {"role": "tool", "parts": [answer]}
    return {"role": message.role, "parts": _parts(message.described, message.tool_calls)}


def _parts(text: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    parts = [_text(text)] if text or not calls else []
    return [
        *parts,
        *(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": masked_arguments(call.arguments_json)}
            for call in calls
        ),
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}
