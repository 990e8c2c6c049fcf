"""python -m tests.bench.tracing: what tracing costs the pipeline at 64, as ratios to the same mesh without it.

Three meshes in the same rounds: one that exports nothing, one that exports every span, and one whose endpoint is dead.
The collector is Jaeger (`make tools` builds it), on the same machine and cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from archon_services.testing import free_ports
from tests.bench import load
from tests.bench.pipeline import PARTS
from tests.bench.processes import Processes
from tests.bench.usage import cpu_seconds
from tests.fixtures.jaeger import JaegerProcess, jaeger_program

CONCURRENCY = 64
FIRST_EXPORT = 12.0
"""Seconds after which a first export to a dead endpoint has failed; a round before shows what an outage costs."""

AIMS = {"to a collector": 0.85, "to a dead endpoint": 0.95}


def exporting(address: str) -> dict[str, str]:
    """Returns the variables of a process that exports all spans to host:port."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}"}


def main() -> None:
    """Prints runs/s and CPU per run of each mesh, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=500)
    given = parser.parse_args()
    program = jaeger_program()
    if program is None:
        sys.exit("Jaeger is neither in .tools/bin nor on PATH: `make tools` builds it")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = stack.enter_context(Processes(home))
        jaeger = stack.enter_context(JaegerProcess(program, home / "jaeger"))
        meshes = {
            "off": {},
            "to a collector": exporting(jaeger.otlp),
            "to a dead endpoint": exporting(f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"),
        }
        targets, pids = {}, {}
        for name, environment in meshes.items():
            registry, agents = processes.members(**environment)
            targets[name] = processes.orchestrator(registry, "memory", **environment)
            pids[name] = [os.getpid(), *(processes.pids[address] for address in (targets[name], *agents))]
        rates: dict[str, list[float]] = defaultdict(list)
        cpu: dict[str, list[list[float]]] = defaultdict(list)
        for target in targets.values():
            uvloop.run(load.unary(target, given.runs, CONCURRENCY))
        time.sleep(FIRST_EXPORT)
        names = list(targets)
        idle = cpu_seconds(jaeger.pid)
        for number in range(given.rounds):
            for name in (*names[number % 3 :], *names[: number % 3]):
                target = targets[name]
                before = [cpu_seconds(pid) for pid in pids[name]]
                rates[name].append(uvloop.run(load.unary(target, given.runs, CONCURRENCY)).rate)
                used = zip(pids[name], before, strict=True)
                cpu[name].append([(cpu_seconds(pid) - began) / given.runs * 1e6 for pid, began in used])
        show(rates, cpu)
        spent = (cpu_seconds(jaeger.pid) - idle) / (given.rounds * given.runs) * 1e6
        print(f"The collector, on the same cores, spent {spent:,.0f} us per run that it received.")


def show(rates: dict[str, list[float]], cpu: dict[str, list[list[float]]]) -> None:
    """Prints medians over the rounds; a ratio is the median of the ratios within a round."""
    table = Table("spans", "runs/s at 64", "x off", "aim", *(f"CPU us, {part}" for part in PARTS), "sum", "x off")
    for name, values in rates.items():
        ratio = statistics.median(value / off for value, off in zip(values, rates["off"], strict=True))
        parts = [statistics.median(column) for column in zip(*cpu[name], strict=True)]
        sums = [sum(row) for row in cpu[name]]
        share = statistics.median(mine / sum(off) for mine, off in zip(sums, cpu["off"], strict=True))
        aim = f">= {AIMS[name]}" if name in AIMS else ""
        table.add_row(
            name,
            f"{statistics.median(values):.0f}",
            f"{ratio:.2f}",
            aim,
            *(f"{part:,.0f}" for part in parts),
            f"{statistics.median(sums):,.0f}",
            f"{share:.2f}",
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
