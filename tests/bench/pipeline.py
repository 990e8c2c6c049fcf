"""python -m tests.bench.pipeline: three roles in a row against a floor in the same run, as ratios.

The floor is what a good engineer would write by hand: client -> orchestrator -> three sequential unary calls to three
agent processes, uvloop, channels kept, no journal; the floor of calls is that without the hop from the client. Rounds
are interleaved; figures are medians over the rounds. For p50 less is better, for runs/s more. CPU per run is the user
and system time of each process over a measurement at 64; wake-ups are the voluntary context switches of its main
thread at 1. With `--before DIR` the orchestrator and agents of another checkout are measured in the same rounds."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from archon.principal import Kind
from tests.bench import load
from tests.bench.drive import Measured
from tests.bench.processes import Checkout, Processes
from tests.bench.security import Security
from tests.bench.usage import cpu_seconds, wake_ups

RUNS = {1: 150, 2: 200, 4: 300, 8: 400, 16: 500, 32: 700, 64: 1000, 128: 1500}
"""The runs of a measurement by how many are under way at a time."""

JOURNALS = ["memory", "normal", "full"]
AIMED_AT = (1, 2, 4, 8, 16, 64)
AIMS = {
    "normal": {"p50": (2.2, 2.3, 2.5, 2.6, 2.6, 2.4), "runs/s": (0.45, 0.44, 0.42, 0.42, 0.42, 0.50)},
    "full": {"p50": (2.9, 3.0, 3.2, 3.2, 3.0, 2.5), "runs/s": (0.34, 0.33, 0.32, 0.32, 0.34, 0.42)},
}
"""Aims of the unary edge as multiples of the floor of calls, by journal."""

CPU_AIMS = {"memory": (900, 750), "normal": (950, 850), "full": (1_050, 950)}
"""Microseconds of the orchestrator's CPU per run, unary and Converse, by journal."""
PARTS = ("client", "orchestrator", "first", "second", "third")

FLOOR = "floor of calls"

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
    """Prints a table of p50 and one of runs/s: a figure of each load, and its multiple of the floor of calls."""
    console = Console(width=170)
    console.print(f"fdatasync p50 of the disk: {sync * 1e6:.0f} us; {rounds} rounds; medians")
    loads = [load for load in RUNS if (FLOOR, load) in figures]
    figure_of: dict[str, Callable[[Measured], float]] = {
        "p50": lambda measured: measured.p50 * 1e3,
        "runs/s": lambda measured: measured.rate,
    }
    for title, figure in figure_of.items():
        unit = " ms" if title == "p50" else ""
        table = Table(f"{title} (x {FLOOR})", *(f"at {load}" for load in loads))
        for name in names:
            values = {load: figure(figures[name, load]) for load in loads}
            multiples = {load: values[load] / figure(figures[FLOOR, load]) for load in loads}
            table.add_row(name, *(f"{values[load]:.4g}{unit} x{multiples[load]:.2f}" for load in loads))
        for journal, aims in AIMS.items():
            by_load = dict(zip(AIMED_AT, aims[title], strict=True))
            sign = "<=" if title == "p50" else ">="
            table.add_row(
                f"aim, {journal} unary", *(f"{sign} {by_load[load]}" if load in by_load else "" for load in loads)
            )
        console.print(table)
    for journal, (unary, converse) in CPU_AIMS.items():
        console.print(f"aim, {journal}: orchestrator CPU <= {unary} us unary, <= {converse} us Converse")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the runs per measurement")
    parser.add_argument("--before", type=Path, help="another checkout with its own .venv, measured in the same rounds")
    parser.add_argument("--loads", default=",".join(map(str, RUNS)), help="runs at a time, separated by commas")
    parser.add_argument("--journals", default=",".join(JOURNALS), help="memory, normal, full, separated by commas")
    parser.add_argument("--go", action="store_true", help="with agents in Go, too (`make interop` builds them)")
    parser.add_argument("--security", default="", help="with tokens, with tls, or both, separated by commas")
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
                by_hand, by_hand_agents = processes.floor()
                targets[FLOOR] = (",".join(by_hand_agents), load.calls)
                add("floor", load.floor, by_hand, by_hand_agents)
            for journal in given.journals.split(","):
                # A mesh each: an agent splits its capacity over its orchestrators.
                registry, agents = processes.members()
                orchestrator = processes.orchestrator(registry, journal)
                add(f"{prefix}{journal} unary", load.unary, orchestrator, agents)
                add(f"{prefix}{journal} Converse", load.converse, orchestrator, agents)
                for kind in filter(None, given.security.split(",")) if not prefix else ():
                    secured = folder / f"{journal}-{kind}"
                    secured.mkdir()
                    security = Security(kind, secured)
                    registry, agents = processes.secured_members(security)
                    own = security.environment(Kind.SERVICE, "orchestrator")
                    orchestrator = processes.orchestrator(registry, journal, suffix=f"-{kind}", **own)
                    add(f"{journal} unary, {kind}", partial(load.unary, security=security), orchestrator, agents)
                    add(f"{journal} Converse, {kind}", partial(load.converse, security=security), orchestrator, agents)
                if given.go and not prefix:
                    registry, agents = processes.go_members()
                    orchestrator = processes.orchestrator(registry, journal, suffix="-go")
                    add(f"{prefix}{journal} unary, Go agents", load.unary, orchestrator, agents)
                    add(f"{prefix}{journal} Converse, Go agents", load.converse, orchestrator, agents)
        loads = {number: RUNS[number] for number in map(int, given.loads.split(","))}
        figures = uvloop.run(measure(targets, given.rounds, given.scale, loads))
        show(figures, list(targets), sync, given.rounds)
        if {1, 64} <= loads.keys():
            meter.show([name for name in targets if name != FLOOR])


if __name__ == "__main__":
    main()
