"""python -m tests.bench.long_term: queries and batches of long-term memory over those of the bare store with the
embedder, over 1,000 to 100,000 entries, and the memory of the process."""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from archon.memory.long_term.entry import LongTermEntry
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term import LongTermMemory, NewEntry, OfflineEmbedder, SqliteLongTermStore
from archon_mesh.memory.long_term.port import Filters, LongTermStore, StoredVector

SIZES: Final = (1_000, 10_000, 100_000)
BATCH: Final = 1_000
QUERIES: Final = 50
USERS: Final = 20
WORDS: Final = 5_000
TENANT: Final = "bench"


def main() -> None:
    """Prints a row for each size and kind of filter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--weaviate", default="", metavar="URL", help="weaviate://HOST:PORT instead of a SQLite file")
    arguments = parser.parse_args()
    asyncio.run(_bench(arguments.sizes, arguments.queries, arguments.weaviate))


async def _bench(sizes: list[int], queries: int, weaviate: str) -> None:
    dice = random.Random(7)
    columns = (
        "entries",
        "stored/s",
        "x bare",
        "filter",
        "bare p50 ms",
        "query p50 ms",
        "query p99 ms",
        "x bare",
        "own MiB",
    )
    table = Table(*columns)
    with tempfile.TemporaryDirectory() as folder:
        store, floor = (_store(Path(folder), weaviate, name) for name in ("memory", "floor"))
        async with LongTermMemory(store, tenant=TENANT, timeout=60) as memory, floor:
            stored = 0
            for size in sorted(sizes):
                spent: list[tuple[float, float]] = []
                added = size - stored
                while stored < size:
                    batch = [_entry(dice) for _ in range(min(BATCH, size // 10, size - stored))]
                    began = time.perf_counter()
                    await memory.store_batch(batch)
                    half = time.perf_counter()
                    await _insert(floor, batch)
                    spent.append((half - began, time.perf_counter() - half))
                    stored += len(batch)
                of_memory, of_floor = (sum(column) for column in zip(*spent, strict=True))
                for filters in ({}, {"user": "user3"}):
                    asked = [_text(dice, 8) for _ in range(queries)]
                    bare = await _times(asked, _bare(store, filters))

                    async def query(text: str, filters: dict[str, str] = filters) -> None:
                        await memory.query(text, filters=filters)

                    whole = await _times(asked, query)
                    ratio = statistics.median(whole) / statistics.median(bare)
                    memory_info = psutil.Process().memory_info()
                    # Without the pages of the file that are mapped: the system takes them back when it needs them.
                    own = (memory_info.rss - memory_info.shared) / 2**20
                    table.add_row(
                        f"{size:,}",
                        f"{added / of_memory:,.0f}",
                        f"{of_memory / of_floor:.2f}",
                        "user" if filters else "",
                        f"{statistics.median(bare) * 1e3:.1f}",
                        f"{statistics.median(whole) * 1e3:.1f}",
                        f"{sorted(whole)[int(len(whole) * 0.99)] * 1e3:.1f}",
                        f"{ratio:.2f}",
                        f"{own:.0f}",
                    )
    Console().print(table)


def _store(folder: Path, weaviate: str, name: str) -> LongTermStore:
    if not weaviate:
        return SqliteLongTermStore(folder / f"{name}.db")
    from archon_mesh.memory.long_term.weaviate import WeaviateLongTermStore

    return WeaviateLongTermStore(weaviate, collection=f"Bench{name.title()}{random.getrandbits(60):x}")


async def _insert(store: LongTermStore, batch: list[NewEntry]) -> None:
    """Does what a batch costs at least: embeddings and one insert."""
    embedder = OfflineEmbedder()
    vectors = await embedder.embed([entry.content for entry in batch])
    now = time.time()
    entries = [LongTermEntry(str(uuid.uuid4()), new.content, now, new.metadata, new.importance) for new in batch]
    await store.insert(TENANT, entries, [StoredVector(embedder.name, vector) for vector in vectors])


def _bare(store: LongTermStore, filters: dict[str, str]) -> Callable[[str], Awaitable[None]]:
    """Returns what a query costs at least: an embedding, and one search of each kind."""
    embedder = OfflineEmbedder()

    async def search(text: str) -> None:
        (vector,) = await embedder.embed([text])
        await store.nearest(TENANT, StoredVector(embedder.name, vector), 5, Filters(filters))
        await store.with_words(TENANT, content_words(text), 5, Filters(filters))

    return search


async def _times(texts: list[str], call: Callable[[str], Awaitable[None]]) -> list[float]:
    seconds = []
    for text in texts:
        began = time.perf_counter()
        await call(text)
        seconds.append(time.perf_counter() - began)
    return seconds


def _entry(dice: random.Random) -> NewEntry:
    return NewEntry(_text(dice, 15), {"user": f"user{dice.randrange(USERS)}", "role": "user"}, dice.random())


def _text(dice: random.Random, length: int) -> str:
    """Returns words with the frequencies of a language: the second half as frequent as the first, and so on."""
    return " ".join(f"word{int(WORDS ** dice.random())}x" for _ in range(length))


if __name__ == "__main__":
    main()
