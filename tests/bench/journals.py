"""Steps per second, by store: one run alone, 64 runs that commit by themselves, and 64 runs in groups.

`python -m tests.bench.journals`
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time

from rich.console import Console
from rich.table import Table

from archon_services.orchestrator.journal import Journal, Outcome, Publication, Step
from archon_services.orchestrator.journal.choose import open_journal
from archon_services.orchestrator.journal.framing import frame
from tests.fixtures.journal import commit_group, new_run
from tests.fixtures.postgres import PostgresServer

SECONDS = 3.0
TOGETHER = 64
EVENTS = frame(b"r" * 1200) + frame(b"d" * 300)


def pipeline_step(run_id: str, base: int) -> Step:
    """Returns a step as a pipeline has it: a result of 1 KiB, the dispatch that follows, the inputs, a publication."""
    publications = (Publication("scope", "role", "r.1", base + 1),)
    new = new_run(run_id) if base == 0 else None
    batch_id = f"{run_id}-{base}"
    return Step(
        run_id, 1, base, base + 2, batch_id, 1.0, EVENTS, b"i" * 1100, 2, False, base == 0, new, (), publications
    )


async def steps_per_second(journal: Journal, runs: int, grouped: int = 1) -> tuple[float, float]:
    """Returns (steps per second, median milliseconds of a commit) of `runs` runs that commit groups of `grouped`."""
    names = [f"{runs}-{grouped}-{n}" for n in range(runs)]
    await commit_group(journal, *(pipeline_step(name, 0) for name in names))
    took: list[float] = []
    end = time.monotonic() + SECONDS

    async def work(group: list[str]) -> None:
        base = 2
        while time.monotonic() < end:
            began = time.perf_counter()
            results = await commit_group(journal, *(pipeline_step(name, base) for name in group))
            assert set(results) == {Outcome.DONE}
            took.append(time.perf_counter() - began)
            base += 2
            if journal.inline:
                await asyncio.sleep(0)

    began = time.monotonic()
    await asyncio.gather(*(work(names[start : start + grouped]) for start in range(0, runs, grouped)))
    return len(took) * grouped / (time.monotonic() - began), statistics.median(took) * 1000


async def main() -> None:
    """Prints the table."""
    columns = ("alone", f"{TOGETHER} at once", f"groups of {TOGETHER}")
    table = Table("journal", *(title for name in columns for title in (f"{name}, steps/s", "ms (p50)")))
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
            figures = [
                await steps_per_second(journal, *shape) for shape in ((1, 1), (TOGETHER, 1), (TOGETHER, TOGETHER))
            ]
            await journal.close()
            table.add_row(name, *(cell for rate, median in figures for cell in (f"{rate:,.0f}", f"{median:.2f}")))
    Console(width=120).print(table)


if __name__ == "__main__":
    asyncio.run(main())
