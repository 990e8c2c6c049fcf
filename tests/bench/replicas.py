"""python -m tests.bench.replicas: the pipeline with two orchestrators on one PostgreSQL, against one on SQLite, in the
same run. Half of the load goes to each of the two; the server's processes have their part of the same cores."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.drive import Measured
from tests.bench.pipeline import RUNS, Edge, fdatasync_p50, measure
from tests.bench.processes import Processes
from tests.fixtures.postgres import PostgresServer

AIM = 2.0
"""At most so many times the p50 of SQLite, at least its runs a second by so much."""


def over_both(edge: Edge) -> Edge:
    """The edge with its load halved over the two addresses of a target, which stand with a comma between."""

    async def run(targets: str, runs: int, concurrency: int) -> Measured:
        first, second = targets.split(",")
        if concurrency == 1:
            return await edge(first, runs, 1)
        halves = await asyncio.gather(*(edge(one, runs // 2, concurrency // 2) for one in (first, second)))
        return Measured(sum(half.p50 for half in halves) / 2, sum(half.rate for half in halves))

    return run


def show(figures: dict[tuple[str, int], Measured], names: list[str], sync: float, rounds: int) -> None:
    """The table."""
    console = Console(width=150)
    console.print(f"fdatasync p50 of the disk: {sync * 1e6:.0f} us; {rounds} rounds; medians")
    table = Table("journal", "edge", "p50 at 1", "x SQLite", "runs/s at 16", "x SQLite", "at 64", "x SQLite")
    for name in names:
        journal, _, edge = name.rpartition(" ")
        at = {concurrency: figures[name, concurrency] for concurrency in RUNS}
        base = {concurrency: figures[f"SQLite, full {edge}", concurrency] for concurrency in RUNS}
        cells = [f"{at[1].p50 * 1e3:.2f} ms", f"{at[1].p50 / base[1].p50:.2f}"]
        for concurrency in (16, 64):
            cells += [f"{at[concurrency].rate:.0f}", f"{at[concurrency].rate / base[concurrency].rate:.2f}"]
        table.add_row(journal, edge, *cells)
    console.print(table)
    console.print(f"aim, two on PostgreSQL: p50 at 1 <= {AIM}x, runs/s >= {1 / AIM}x")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the runs per measurement")
    given = parser.parse_args()
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        targets: dict[str, tuple[str, Edge]] = {}
        sqlite = processes.orchestrator(processes.mesh(), "full")
        alone = processes.orchestrator(processes.mesh(), server.dsn(server.create_database()))
        shared, registry = server.dsn(server.create_database()), processes.mesh()
        both = ",".join(processes.orchestrator(registry, shared) for _ in range(2))
        for name, edge in (("unary", load.unary), ("Converse", load.converse)):
            targets[f"SQLite, full {name}"] = (sqlite, edge)
            targets[f"PostgreSQL, one {name}"] = (alone, edge)
            targets[f"PostgreSQL, two {name}"] = (both, over_both(edge))
        sync = fdatasync_p50(Path(folder))
        figures = uvloop.run(measure(targets, given.rounds, given.scale))
        show(figures, list(targets), sync, given.rounds)


if __name__ == "__main__":
    main()
