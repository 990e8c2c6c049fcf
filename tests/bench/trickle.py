"""python -m tests.bench.trickle: three roles in a row at random times, so many a second, against the floor in the same run.

What a service sees: runs that begin whether or not others have ended. Rounds are interleaved; figures are medians over the
rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.drive import Measured, trickle
from tests.bench.pipeline import FLOOR, Edge, fdatasync_p50
from tests.bench.processes import Checkout, Processes


async def measure(targets: dict[str, tuple[str, Edge]], rounds: int, runs: int, rate: int) -> dict[str, Measured]:
    """Returns medians over interleaved rounds, by name."""
    seen: dict[str, list[Measured]] = defaultdict(list)
    for _ in range(rounds):
        for name, (target, edge) in targets.items():
            seen[name].append(await edge(target, runs, rate))
    return {
        name: Measured(
            *(statistics.median(getattr(one, part) for one in all_) for part in ("p50", "rate", "p95", "p99"))
        )
        for name, all_ in seen.items()
    }


def edge_of(edge: object) -> Edge:
    """Returns an edge whose runs trickle in."""

    async def run(target: str, runs: int, rate: int) -> Measured:
        return await edge(target, runs, rate, trickle)  # type: ignore[operator, no-any-return]

    return run


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=50, help="runs a second, on average")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a measurement")
    parser.add_argument("--before", type=Path, help="another checkout with its own .venv, measured in the same rounds")
    parser.add_argument("--journals", default="normal,full", help="memory, normal, full, separated by commas")
    given = parser.parse_args()
    checkouts = {"": Checkout()} | ({"before, ": Checkout.at(given.before)} if given.before else {})
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sync = fdatasync_p50(home)
        targets: dict[str, tuple[str, Edge]] = {}
        for prefix, checkout in checkouts.items():
            folder = home / (prefix.strip(", ") or "now")
            folder.mkdir()
            processes = stack.enter_context(Processes(folder, checkout))
            if not prefix:
                targets[FLOOR] = (",".join(processes.floor()[1]), edge_of(load.calls))
            for journal in given.journals.split(","):
                registry, _ = processes.members()
                orchestrator = processes.orchestrator(registry, journal)
                targets[f"{prefix}{journal} unary"] = (orchestrator, edge_of(load.unary))
                targets[f"{prefix}{journal} Converse"] = (orchestrator, edge_of(load.converse))
        figures = uvloop.run(measure(targets, given.rounds, int(given.rate * given.seconds), given.rate))
    floor = figures[FLOOR]
    table = Table(f"{given.rate} runs a second", "p50", f"x {FLOOR}", "p99", f"x {FLOOR}", "runs/s")
    for name, measured in figures.items():
        table.add_row(
            name,
            f"{measured.p50 * 1e3:.2f} ms",
            f"{measured.p50 / floor.p50:.2f}",
            f"{measured.p99 * 1e3:.2f} ms",
            f"{measured.p99 / floor.p99:.2f}",
            f"{measured.rate:.1f}",
        )
    console = Console(width=120)
    console.print(f"fdatasync p50 of the disk: {sync * 1e6:.0f} us; {given.rounds} rounds; medians")
    console.print(table)


if __name__ == "__main__":
    main()
