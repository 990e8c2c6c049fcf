"""Measures retrieval on the labelled set. `python -m tests.quality.long_term.measure` prints the table of the half on
which is tuned; with `--final` it writes the table of the other half into docs/memory.md."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from archon.memory.long_term.entry import LongTermEntry, checksum_of
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term.embedders import OfflineEmbedder
from archon_mesh.memory.long_term.port import Filters, LongTermStore, StoredVector
from archon_mesh.memory.long_term.retrieval import Retriever, aspects
from archon_mesh.memory.long_term.sqlite import SqliteLongTermStore
from tests.quality.long_term.labelled_set import KINDS, Half, Question, memories, questions

PAGE: Final = Path(__file__).parents[3] / "docs" / "memory.md"
BEGIN: Final = "<!-- Written by python -m tests.quality.long_term.measure --final -->\n"
END: Final = "<!-- end -->\n"
LIMIT: Final = 5
TENANT: Final = "labelled"
METHODS: Final = ("hybrid", "hybrid, default threshold", "BM25 alone", "vectors alone")
WEEK: Final = 7 * 86_400.0

Search = Callable[[Question], Awaitable[list[str]]]
Recall = Mapping[str, Mapping[str, float]]
"""Mean recall@5 by method, and in it by kind of question and for `all`."""


async def measure(half: Half) -> Recall:
    """Returns the recall of each method on one half, with a SQLite store."""
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteLongTermStore(Path(folder) / "long_term.db") as store:
            return await measure_store(store, half)


async def measure_store(store: LongTermStore, half: Half, id_of: Callable[[str], str] = str) -> Recall:
    """Returns the recall of each method on one half, each question among the memories of the user who asks. The store
    is empty; `id_of` returns the id of the entry for the key of a memory."""
    embedder = OfflineEmbedder()
    entries = labelled_entries(id_of)
    now = max(entry.create_time for entry in entries) + WEEK
    vectors = [StoredVector(embedder.name, vector) for vector in await embedder.embed([e.content for e in entries])]
    await store.insert(TENANT, entries, vectors)
    retriever = Retriever(store, embedder, lambda: now)

    def hybrid(threshold: float | None) -> Search:
        async def search(question: Question) -> list[str]:
            filters = Filters({"user": question.user})
            query = await embedder.embed(aspects(question.text))
            result = await retriever.search(TENANT, question.text, query, LIMIT, threshold, filters)
            return [found.entry.id for found in result.found]

        return search

    async def words(question: Question) -> list[str]:
        filters = Filters({"user": question.user})
        found = await store.with_words(TENANT, content_words(question.text), LIMIT, filters)
        return [entry.id for entry in found]

    async def nearest(question: Question) -> list[str]:
        (vector,) = await embedder.embed([question.text])
        query = StoredVector(embedder.name, vector)
        found = await store.nearest(TENANT, query, LIMIT, Filters({"user": question.user}))
        return [entry.id for entry, _ in found]

    asked = [replace(question, expected=frozenset(map(id_of, question.expected))) for question in questions(half)]
    searches = (hybrid(0.0), hybrid(None), words, nearest)
    return {method: await _recall(search, asked) for method, search in zip(METHODS, searches, strict=True)}


def labelled_entries(id_of: Callable[[str], str] = str) -> list[LongTermEntry]:
    """Returns the labelled memories as entries, without vectors."""
    entries = []
    for memory in memories():
        entry_id = id_of(memory.key)
        metadata = {"user": memory.user, "role": memory.role, "type": memory.type}
        checksum = checksum_of(entry_id, memory.text, memory.created_at, metadata)
        entries.append(LongTermEntry(entry_id, memory.text, memory.created_at, metadata, checksum=checksum))
    return entries


async def _recall(search: Search, asked: list[Question]) -> Mapping[str, float]:
    recalls: dict[str, list[float]] = {kind: [] for kind in (*KINDS, "all")}
    for question in asked:
        found = set(await search(question))
        recall = len(question.expected & found) / len(question.expected)
        recalls[question.kind].append(recall)
        recalls["all"].append(recall)
    return {kind: sum(values) / len(values) for kind, values in recalls.items()}


def table(recall: Recall) -> str:
    """Returns the table in Markdown."""
    lines = ["| kind of question | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for kind in (*KINDS, "all"):
        lines.append(f"| {kind} | " + " | ".join(f"{recall[method][kind]:.2f}" for method in METHODS) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Prints or writes the table."""
    if "--final" not in sys.argv:
        print(table(asyncio.run(measure("tuning"))))
        return 0
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(asyncio.run(measure('final')))}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
