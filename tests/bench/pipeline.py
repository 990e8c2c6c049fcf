"""python -m tests.bench.pipeline: three roles in a row against a floor in the same run, as ratios.

The floor is what a good engineer would write by hand: client -> orchestrator -> three sequential unary calls to three
agent processes, uvloop, channels kept, no journal. Rounds are interleaved; figures are medians over the rounds. For
p50 less is better, for runs/s more. CPU per run is the user and system time of each process over a measurement at 64;
wake-ups are the voluntary context switches of its main thread at 1. With `--before DIR` the orchestrator and agents of
another checkout are measured in the same rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.drive import Measured
from tests.bench.processes import Checkout, Processes
from tests.bench.usage import cpu_seconds, wake_ups

RUNS = {1: 150, 16: 500, 64: 1000}
JOURNALS = ["memory", "normal", "full"]
AIMS = {
    "memory": ("2.0", "0.6", "0.7", "900", "750"),
    "normal": ("2.3", "0.55", "0.65", "950", "850"),
    "full": ("3.5", "0.5", "0.55", "1,050", "950"),
}
PARTS = ("client", "orchestrator", "first", "second", "third")

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


async def measure(
    targets: dict[str, tuple[str, Edge]], rounds: int, scale: float, shape: Mapping[int, int] = RUNS
) -> dict[tuple[str, int], Measured]:
    """Returns medians over interleaved rounds, by (name, concurrency). `shape` is the number of runs of a measurement
    by its concurrency."""
    seen: dict[tuple[str, int], list[Measured]] = defaultdict(list)
    for _ in range(rounds):
        for concurrency, runs in shape.items():
            for name, (target, edge) in targets.items():
                seen[name, concurrency].append(await edge(target, max(10, int(runs * scale)), concurrency))
    return {
        key: Measured(statistics.median(m.p50 for m in all_), statistics.median(m.rate for m in all_))
        for key, all_ in seen.items()
    }


class Meter:
    """CPU time and wake-ups per run of the processes behind each target, in the order of PARTS."""

    def __init__(self) -> None:
        self._cpu: dict[str, list[list[float]]] = defaultdict(list)
        self._wakes: dict[str, list[list[float]]] = defaultdict(list)

    def metered(self, name: str, pids: list[int], edge: Edge) -> Edge:
        """Returns an edge that measures its processes at 64 (CPU) and at 1 (wake-ups)."""

        async def run(target: str, runs: int, concurrency: int) -> Measured:
            cpu, wakes = [cpu_seconds(pid) for pid in pids], [wake_ups(pid) for pid in pids]
            measured = await edge(target, runs, concurrency)
            if concurrency == 64:
                used = zip(pids, cpu, strict=True)
                self._cpu[name].append([(cpu_seconds(pid) - before) / runs * 1e6 for pid, before in used])
            elif concurrency == 1:
                waited = zip(pids, wakes, strict=True)
                self._wakes[name].append([(wake_ups(pid) - before) / runs for pid, before in waited])
            return measured

        return run

    def cpu_per_run(self, name: str) -> float:
        """Returns the microseconds of CPU per run at 64 of all processes of a target."""
        return statistics.median(map(sum, self._cpu[name]))

    def show(self, names: list[str]) -> None:
        """Prints the table: microseconds of CPU per run at 64, wake-ups per run at 1."""
        table = Table("CPU us per run at 64", *PARTS, "sum", "x floor", "wake-ups at 1", "x floor")
        floor_cpu = self.cpu_per_run("floor")
        floor_wakes = statistics.median(map(sum, self._wakes["floor"]))
        for name in names:
            parts = [statistics.median(values) for values in zip(*self._cpu[name], strict=True)]
            total = self.cpu_per_run(name)
            wakes = [statistics.median(values) for values in zip(*self._wakes[name], strict=True)]
            table.add_row(
                name,
                *(f"{part:,.0f}" for part in parts),
                f"{total:,.0f}",
                f"{total / floor_cpu:.2f}",
                " ".join(f"{value:.1f}" for value in wakes),
                f"{statistics.median(map(sum, self._wakes[name])) / floor_wakes:.2f}",
            )
        Console(width=150).print(table)


def show(figures: dict[tuple[str, int], Measured], names: list[str], sync: float, rounds: int) -> None:
    """The table."""
    console = Console(width=150)
    console.print(f"fdatasync p50 of the disk: {sync * 1e6:.0f} us; {rounds} rounds; medians")
    table = Table("journal (synchronous)", "edge", "p50 at 1", "x floor", "runs/s at 16", "x floor", "at 64", "x floor")
    floor = {concurrency: figures["floor", concurrency] for concurrency in RUNS}
    for name in names:
        at = {concurrency: figures[name, concurrency] for concurrency in RUNS}
        journal, _, edge = name.rpartition(" ") if " " in name else (name, "", "")
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
    for journal, (p50, unary, converse, unary_cpu, converse_cpu) in AIMS.items():
        console.print(
            f"aim, {journal}: p50 at 1 <= {p50}x; runs/s at 64 >= {unary}x unary, >= {converse}x Converse; "
            f"orchestrator CPU <= {unary_cpu} us unary, <= {converse_cpu} us Converse"
        )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the runs per measurement")
    parser.add_argument("--before", type=Path, help="another checkout with its own .venv, measured in the same rounds")
    given = parser.parse_args()
    checkouts = {"": Checkout()} | ({"before, ": Checkout.at(given.before)} if given.before else {})
    meter = Meter()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sync = fdatasync_p50(home)
        targets: dict[str, tuple[str, Edge]] = {}
        for prefix, checkout in checkouts.items():
            folder = home / (prefix.strip(", ") or "now")
            folder.mkdir()
            processes = stack.enter_context(Processes(folder, checkout))

            def add(name: str, edge: Edge, address: str, agents: list[str], started: Processes = processes) -> None:
                pids = [os.getpid(), *(started.pids[each] for each in (address, *agents))]
                targets[name] = (address, meter.metered(name, pids, edge))

            if not prefix:
                add("floor", load.floor, *processes.floor())
            for journal in JOURNALS:
                # A mesh each: an agent splits its capacity over its orchestrators.
                registry, agents = processes.members()
                orchestrator = processes.orchestrator(registry, journal)
                add(f"{prefix}{journal} unary", load.unary, orchestrator, agents)
                add(f"{prefix}{journal} Converse", load.converse, orchestrator, agents)
        figures = uvloop.run(measure(targets, given.rounds, given.scale))
        show(figures, list(targets), sync, given.rounds)
        meter.show(list(targets))


if __name__ == "__main__":
    main()
