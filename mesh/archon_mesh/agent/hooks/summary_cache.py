"""Summaries by the messages that they replaced.

The history of a stateful role is loaded whole with each task: without this, each task would summarise it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from archon_mesh.bounded_cache import BoundedCache
from archon_mesh.core.messages import ChatMessage

MAX_SUMMARIES: Final = 128
"""Summaries that are kept, each bounded by the compaction; the one used longest ago is dropped."""


class SummaryCache:
    """Finds the summary of the longest beginning of a history that was summarised before."""

    def __init__(self, max_summaries: int = MAX_SUMMARIES) -> None:
        self._summaries: BoundedCache[bytes, ChatMessage] = BoundedCache(max_summaries)

    def put(self, replaced: Sequence[ChatMessage], summary: ChatMessage) -> None:
        """Keeps the summary of these messages."""
        *_, digest = _digests(replaced)
        self._summaries.put(digest, summary)

    def apply(self, messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], int]:
        """Returns the messages with the longest known beginning replaced by its summary, and how many it replaces.

        The last query is never replaced.
        """
        last_query = max((number for number, message in enumerate(messages) if message.role == "user"), default=0)
        best, covered = b"", 0
        if len(self._summaries):
            for number, digest in enumerate(_digests(messages[:last_query]), start=1):
                if digest in self._summaries:
                    best, covered = digest, number
        if (summary := self._summaries.get(best)) is None:
            return list(messages), 0
        return [summary, *messages[covered:]], covered


def _digests(messages: Sequence[ChatMessage]) -> Iterator[bytes]:
    """Yields the hash of each beginning of the messages, the shortest first."""
    total = hashlib.sha256()
    for message in messages:
        calls = [(call.id, call.name, call.arguments_json) for call in message.tool_calls]
        files = [[file.digest for file in message.files]] if message.files else []
        parts = json.dumps([message.role, message.content, message.tool_call_id, calls, *files])
        total.update(f"{len(parts)}:{parts}".encode())
        yield total.digest()
