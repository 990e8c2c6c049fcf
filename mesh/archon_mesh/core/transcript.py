"""Conversations as text, for models that were not part of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from archon_mesh.core.messages import ChatMessage


def transcript(messages: Iterable[ChatMessage]) -> str:
    """Returns one paragraph per message and per tool call, in order; labels stand for files."""
    lines = []
    for message in messages:
        if text := message.described:
            lines.append(f"{message.role}: {text}")
        lines += [f"assistant calls {call.name}: {call.arguments_json}" for call in message.tool_calls]
    return "\n".join(lines)


def tool_results(messages: Sequence[ChatMessage]) -> str:
    """Returns the results of all tool calls, each below its call, in order; empty if there are none."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    results = []
    for message in messages:
        if message.role == "tool":
            call = calls.get(message.tool_call_id or "")
            title = f"{call.name} {call.arguments_json}" if call is not None else "a tool"
            results.append(f"Result of {title}:\n{message.described}")
    return "\n\n".join(results)
