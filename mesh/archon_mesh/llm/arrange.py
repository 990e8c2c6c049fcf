"""Messages in the order that servers with strict chat templates accept: one system message, at the beginning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from archon_mesh.core.messages import ChatMessage


def with_one_system_message(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Returns the messages with their first system messages as one, and each later one at the end of the user's
    message or tool result before it, or as a user's message behind an assistant's.

    Templates such as Qwen's refuse a second system message; Mistral's refuse one at the end, and a user's message
    behind a tool result.
    """
    arranged: list[ChatMessage] = []
    for message in messages:
        last = arranged[-1] if arranged else None
        if message.role != "system" or last is None:
            arranged.append(message)
        elif last.role == "assistant":
            arranged.append(replace(message, role="user"))
        else:
            arranged[-1] = replace(last, content=f"{last.content}\n\n{message.content}".strip())
    return arranged
