"""python -m tests.bench.replicas: the pipeline with two orchestrators on one PostgreSQL, against one on SQLite, in the
same run. Half of the load goes to each of the two; the server's processes have their part of the same cores. CPU per run
is the user and system time over a measurement at 64; cores used are the sum over the time that the measurement took."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.drive import Measured
from tests.bench.pipeline import RUNS, Edge, fdatasync_p50, measure
from tests.bench.processes import Processes
from tests.bench.usage import cpu_seconds
from tests.fixtures.postgres import PostgresServer

AIM_P50, AIM_RATE = 1.2, 1.4
"""Of two on PostgreSQL: at most so many times the p50 of SQLite, at least so many times its runs per second."""

PARTS = ("client", "orchestrators", "agents", "database")


def over_both(edge: Edge) -> Edge:
    """The edge with its load halved over the two addresses of a target, which stand with a comma between."""

    async def run(targets: str, runs: int, concurrency: int) -> Measured:
        first, second = targets.split(",")
        if concurrency == 1:
            return await edge(first, runs, 1)
        halves = await asyncio.gather(*(edge(one, runs // 2, concurrency // 2) for one in (first, second)))
        return Measured(sum(half.p50 for half in halves) / 2, sum(half.rate for half in halves))

    return run


class Meter:
    """CPU per run of the processes behind each target by PARTS, and the cores in use."""

    def __init__(self) -> None:
        self._seen: dict[str, list[list[float]]] = defaultdict(list)

    def metered(self, name: str, pids: Callable[[], list[list[int]]], edge: Edge) -> Edge:
        """Returns an edge that measures its processes at 64. `pids` returns process ids by PARTS."""

        async def run(target: str, runs: int, concurrency: int) -> Measured:
            began, before = time.perf_counter(), _cpu(pids())
            measured = await edge(target, runs, concurrency)
            if concurrency == 64:
                used = [now - then for now, then in zip(_cpu(pids()), before, strict=True)]
                cores = sum(used) / (time.perf_counter() - began)
                self._seen[name].append([*(seconds / runs * 1e6 for seconds in used), cores])
            return measured

        return run

    def show(self, names: list[str]) -> None:
        """Prints the table."""
        table = Table("CPU us per run at 64", *PARTS, "sum", "cores used")
        for name in names:
            *parts, cores = [statistics.median(values) for values in zip(*self._seen[name], strict=True)]
            table.add_row(name, *(f"{part:,.0f}" for part in parts), f"{sum(parts):,.0f}", f"{cores:.2f}")
        Console(width=150).print(table)


def _cpu(parts: list[list[int]]) -> list[float]:
    return [sum(map(cpu_seconds, pids)) for pids in parts]


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
    console.print(f"aim, two on PostgreSQL: p50 at 1 <= {AIM_P50}x, runs/s >= {AIM_RATE}x")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the runs per measurement")
    given = parser.parse_args()
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        targets: dict[str, tuple[str, Edge]] = {}
        meter = Meter()

        def add(journal: str, addresses: list[str], agents: list[str], database: bool) -> None:
            def pids() -> list[list[int]]:
                served = [[processes.pids[address] for address in part] for part in (addresses, agents)]
                return [[os.getpid()], *served, server.pids() if database else []]

            for edge_name, edge in (("unary", load.unary), ("Converse", load.converse)):
                name = f"{journal} {edge_name}"
                over = edge if len(addresses) == 1 else over_both(edge)
                targets[name] = (",".join(addresses), meter.metered(name, pids, over))

        registry, agents = processes.members()
        add("SQLite, full", [processes.orchestrator(registry, "full")], agents, database=False)
        for journal, number in (("PostgreSQL, one", 1), ("PostgreSQL, two", 2)):
            registry, agents = processes.members()
            dsn = server.dsn(server.create_database())
            add(journal, [processes.orchestrator(registry, dsn) for _ in range(number)], agents, database=True)
        sync = fdatasync_p50(Path(folder))
        figures = uvloop.run(measure(targets, given.rounds, given.scale))
        show(figures, list(targets), sync, given.rounds)
        meter.show(list(targets))


if __name__ == "__main__":
    main()
