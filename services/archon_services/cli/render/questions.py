"""What people are asked, in words, and what to type to answer it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2

SHOWN: Final = 80
"""Characters of a question or an answer where it is only named."""

_SCHEMA_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a run."""

    run_id: str
    input_id: str
    role: str
    text: str
    schema_json: str

    @property
    def short_id(self) -> str:
        """As people type it: within its run."""
        return self.input_id.removeprefix(f"{self.run_id}.")

    @property
    def named(self) -> str:
        """Id, role, and the beginning of the text."""
        return f"{self.short_id} ({self.role}: {shortened(self.text)})"

    @property
    def form(self) -> str:
        """What the answer must be like; empty where it is free."""
        return f"The answer must fit {shortened(self.schema_json, _SCHEMA_SHOWN)}" if self.schema_json else ""

    def lines(self) -> Iterator[str]:
        """The whole of it."""
        yield from (line for line in self.text.splitlines() if line.strip())
        if self.form:
            yield self.form

    def command(self, reach: str = "") -> str:
        """What answers it; `reach` is what such a command needs to find the orchestrator."""
        return f'archon respond {self.run_id[:12]} --question {shlex.quote(self.short_id)}{reach} "..."'


def asked_of(run_id: str, said: run_pb2.Question | run_pb2.InputRequested) -> Asked:
    """As the run, or an event of it, tells."""
    return Asked(run_id, said.input_id, said.role, words_of(said.prompt), said.schema_json)


def words_of(parts: Sequence[common_pb2.Part]) -> str:
    """All that can be read; the rest is named."""
    return "\n".join(filter(None, map(_words, parts)))


def _words(part: common_pb2.Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            said = part.text.strip()
        case "data_json":
            said = part.data_json
        case "url":
            said = part.url
        case _:
            said = "" if part.filename else f"[{part.media_type or 'content'}]"
    return f"[{part.filename}] {said}".rstrip() if part.filename else said


def shortened(text: str, most: int = SHOWN) -> str:
    """On one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rstrip() + "…"
