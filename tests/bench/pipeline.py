"""python -m tests.bench.pipeline: three roles in a row against a floor in the same run, as ratios.

The floor is what a good engineer would write by hand: client -> orchestrator -> three sequential unary calls to three
agent processes, uvloop, channels kept, no journal. Rounds are interleaved; figures are medians over the rounds. For
p50 less is better, for runs/s more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.append_cost import print_append_cost
from tests.bench.load import Measured
from tests.bench.processes import Processes

RUNS = {1: 150, 16: 500, 64: 1000}
JOURNALS = ["memory", "normal", "full"]
AIMS = {"memory": ("1.2", "1.2", "2.0"), "normal": ("1.5", "1.1", "1.5"), "full": ("2.5", "1.0", "1.3")}

Edge = Callable[[str, int, int], Awaitable[Measured]]


def fdatasync_p50(folder: Path) -> float:
    """Seconds that the disk takes to make 4 KB durable."""
    times = []
    descriptor = os.open(folder / "probe", os.O_WRONLY | os.O_CREAT)
    for _ in range(100):
        os.write(descriptor, b"x" * 4096)
        began = time.perf_counter()
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - began)
    os.close(descriptor)
    return statistics.median(times)


async def measure(targets: dict[str, tuple[str, Edge]], rounds: int, scale: float) -> dict[tuple[str, int], Measured]:
    """Medians over interleaved rounds, by (name, concurrency)."""
    seen: dict[tuple[str, int], list[Measured]] = defaultdict(list)
    for _ in range(rounds):
        for concurrency, runs in RUNS.items():
            for name, (target, edge) in targets.items():
                seen[name, concurrency].append(await edge(target, max(10, int(runs * scale)), concurrency))
    return {
        key: Measured(statistics.median(m.p50 for m in all_), statistics.median(m.rate for m in all_))
        for key, all_ in seen.items()
    }


def show(figures: dict[tuple[str, int], Measured], names: list[str], sync: float, rounds: int) -> None:
    """The table."""
    console = Console(width=150)
    console.print(f"fdatasync p50 of the disk: {sync * 1e6:.0f} us; {rounds} rounds; medians")
    table = Table("journal (synchronous)", "edge", "p50 at 1", "x floor", "runs/s at 16", "x floor", "at 64", "x floor")
    floor = {concurrency: figures["floor", concurrency] for concurrency in RUNS}
    for name in names:
        at = {concurrency: figures[name, concurrency] for concurrency in RUNS}
        journal, _, edge = name.partition(" ")
        table.add_row(
            journal,
            edge,
            f"{at[1].p50 * 1e3:.2f} ms",
            f"{at[1].p50 / floor[1].p50:.2f}",
            f"{at[16].rate:.0f}",
            f"{at[16].rate / floor[16].rate:.2f}",
            f"{at[64].rate:.0f}",
            f"{at[64].rate / floor[64].rate:.2f}",
        )
    console.print(table)
    for journal, (p50, unary, converse) in AIMS.items():
        console.print(f"aim, {journal}: p50 at 1 <= {p50}x; runs/s at 64 >= {unary}x unary, >= {converse}x Converse")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the runs per measurement")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        sync = fdatasync_p50(Path(folder))
        targets: dict[str, tuple[str, Edge]] = {"floor": (processes.floor(), load.floor)}
        for journal in JOURNALS:
            # A mesh each: an agent splits its capacity over its orchestrators.
            orchestrator = processes.orchestrator(processes.mesh(), journal)
            targets[f"{journal} unary"] = (orchestrator, load.unary)
            targets[f"{journal} Converse"] = (orchestrator, load.converse)
        figures = uvloop.run(measure(targets, given.rounds, given.scale))
        show(figures, list(targets), sync, given.rounds)
    uvloop.run(print_append_cost())


if __name__ == "__main__":
    main()
