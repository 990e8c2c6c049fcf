"""Appends a second, by store: one run alone, and 64 runs that wait together. `python -m tests.bench.journals`"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time

from rich.console import Console
from rich.table import Table

from archon_services.orchestrator.journal import Append, Journal, NewRun, Outcome, Publication
from archon_services.orchestrator.journal.choose import open_journal
from tests.fixtures.postgres import PostgresServer

SECONDS = 3.0
TOGETHER = 64


def step(run_id: str, at: int) -> Append:
    """As a pipeline's: a result of 1 KiB, the dispatch it frees, what caused them, and what is to be published."""
    events = (b"r" * 1200, b"d" * 300)
    publications = (Publication("scope", "role", "r.1", at + 1, "x" * 1024),)
    return Append(run_id, 1, at, f"{run_id}-{at}", 1.0, events, b"i" * 1100, 2, False, (), publications)


async def appends(journal: Journal, runs: int) -> tuple[float, float]:
    """(appends a second, median milliseconds of one)."""
    names = [f"{runs}-{n}" for n in range(runs)]
    await asyncio.gather(
        *(journal.create(NewRun(name, "default", "", b"", "", "owner"), step(name, 0)) for name in names)
    )
    took: list[float] = []
    end = time.monotonic() + SECONDS

    async def work(name: str) -> None:
        at = 2
        while time.monotonic() < end:
            began = time.perf_counter()
            assert await journal.append(step(name, at)) is Outcome.DONE
            took.append(time.perf_counter() - began)
            at += 2

    began = time.monotonic()
    await asyncio.gather(*map(work, names))
    return len(took) / (time.monotonic() - began), statistics.median(took) * 1000


async def main() -> None:
    """Prints the table."""
    table = Table("journal", "alone, appends/s", "ms (p50)", f"{TOGETHER} together, appends/s", "ms (p50)")
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        stores = {
            "SQLite, normal": (f"{folder}/normal.db", "normal"),
            "SQLite, full": (f"{folder}/full.db", "full"),
            "PostgreSQL": (server.dsn(), "full"),
            "memory": ("memory", "full"),
        }
        for name, (place, sync) in stores.items():
            journal = open_journal(place, "normal" if sync == "normal" else "full")
            await journal.open()
            alone, together = await appends(journal, 1), await appends(journal, TOGETHER)
            await journal.close()
            figures = (f"{alone[0]:,.0f}", f"{alone[1]:.2f}", f"{together[0]:,.0f}", f"{together[1]:.2f}")
            table.add_row(name, *figures)
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main())
