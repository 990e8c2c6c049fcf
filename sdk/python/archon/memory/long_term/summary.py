"""Summarises memories: by a model if there is one, else by an extract that is always the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from archon.memory.long_term.context import memory_line
from archon.memory.long_term.entry import LongTermEntry

MAX_LINES: Final = 20
"""Lines of an extract."""

MAX_MEMORIES: Final = 100
"""Memories that are summarised by default."""

Summarize = Callable[[str], Awaitable[str]]
"""Returns the answer of a model to a prompt."""

_PROMPT: Final = (
    "Summarise these memories in at most {lines} short lines. Keep names, numbers, dates and URLs as they are. "
    "If memories contradict each other, the newest one holds.\n\n{memories}"
)
_FACT: Final = re.compile(r"\d|https?://|(?<=[a-z,;:] )[A-Z][a-z]+")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")


async def summarize(entries: Sequence[LongTermEntry], model: Summarize | None = None) -> str:
    """Returns a summary of entries, newest first; empty if there are none. Raises the model's errors."""
    if not entries:
        return ""
    if model is None:
        return extract(entries)
    lines = "\n".join(memory_line(entry) for entry in reversed(entries))
    return (await model(_PROMPT.format(lines=MAX_LINES, memories=lines))).strip()


def extract(entries: Sequence[LongTermEntry]) -> str:
    """Returns the entries with the most facts and the most frequent words, as lines, oldest first."""
    frequency = Counter(word for entry in entries for word in set(_words(entry)))

    def weight(entry: LongTermEntry) -> float:
        words = _words(entry)
        common = sum(frequency[word] for word in words) / len(words) if words else 0.0
        facts = min(5, len(_FACT.findall(entry.content)))
        return entry.importance + 0.2 * facts + 0.3 * common / len(entries)

    chosen = sorted(entries, key=lambda entry: (-weight(entry), -entry.create_time, entry.id))[:MAX_LINES]
    return "\n".join(memory_line(entry) for entry in sorted(chosen, key=lambda entry: (entry.create_time, entry.id)))


def _words(entry: LongTermEntry) -> list[str]:
    return [match[0].lower() for match in _WORD.finditer(entry.content)]
