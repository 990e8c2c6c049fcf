"""Reads the corpus: README.md has its format, and the rule that says which replies are recoverable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A reply and what is expected of it: a call, an answer, or neither. `id` is its file and its number there."""

    id: str
    reply: str
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    answer: str | None = None

    @property
    def recoverable(self) -> bool:
        """Whether there is a call or an answer to be read."""
        return self.tool is not None or self.answer is not None


def read_corpus() -> list[Entry]:
    """Returns all entries."""
    entries = []
    for path in sorted(_FOLDER.glob("*.txt")):
        parts = path.read_text().split("%% ")[1:]
        for number, part in enumerate(parts, 1):
            header, _, reply = part.partition("\n")
            reply = "\n".join(line for line in reply.split("\n") if not line.startswith("%%#")).removesuffix("\n")
            entries.append(_entry(f"{path.stem}-{number}", header, reply))
    return entries


def _entry(entry_id: str, header: str, reply: str) -> Entry:
    kind, _, rest = header.partition(" ")
    if kind == "answer":
        return Entry(entry_id, reply, answer=json.loads(rest))
    if kind == "call":
        tool, _, arguments = rest.partition(" ")
        return Entry(entry_id, reply, tool, json.loads(arguments))
    if kind not in ("none", "lost"):
        raise ValueError(f"{entry_id}: unknown kind {kind!r}")
    return Entry(entry_id, reply)
