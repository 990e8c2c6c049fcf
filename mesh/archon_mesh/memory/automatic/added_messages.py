"""The messages that the requests of one run get beside its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import estimate_tokens
from archon_mesh.memory.automatic.assembly import (
    CHANGED_WORKING_MEMORY,
    WORKING_MEMORY,
    working_memory_message,
)

REMOVED: Final = "(removed)"
"""The text in place of a value that the working memory had before."""


class AddedMessages:
    """Working memory and memories. Each message stays where it was in the first request that had it, so that each
    request begins with the one before, which providers keep for it: values that change are added after the newest
    message, and replace nothing."""

    def __init__(self, memories: Sequence[ChatMessage]) -> None:
        self._memories = list(memories)
        self._first: dict[str, str] | None = None
        """The values of the working memory at the first request."""
        self._values: dict[str, str] = {}
        self._changes: list[tuple[ChatMessage, ChatMessage]] = []
        """Changed values, each with the message of the history that it stands after."""

    def show(self, values: Mapping[str, str], history: Sequence[ChatMessage], budget: int) -> None:
        """Sets the values of the working memory. If all that was shown of them exceeds the budget, in tokens, only the
        current values are shown, before the memories."""
        if self._first is None:
            self._first = self._values = dict(values)
        changed = {key: text for key, text in values.items() if self._values.get(key) != text}
        changed |= {key: REMOVED for key in self._values if key not in values}
        if not changed:
            return
        heading = CHANGED_WORKING_MEMORY if self._values else WORKING_MEMORY
        self._values = dict(values)
        self._changes += [(history[-1], change) for change in working_memory_message(changed, heading)]
        shown = [*working_memory_message(self._first), *(change for _, change in self._changes)]
        if sum(estimate_tokens(message.content) for message in shown) > budget:
            self._first, self._changes = self._values, []

    def insert_into(self, messages: list[ChatMessage]) -> None:
        """Inserts the messages into a request's: after its system messages, and the changes where they were."""
        for after, change in reversed(self._changes):
            index = next((index for index, message in enumerate(messages) if message is after), None)
            if index is not None:  # else the history was compacted
                messages.insert(index + 1, change)
        start = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
        messages[start:start] = [*working_memory_message(self._first or {}), *self._memories]
