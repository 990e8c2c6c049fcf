"""python -m tests.bench.tracing_outage: a collector that is frozen, then killed, under load.

One mesh exports every span to Jaeger. Phases of the same length: the collector works, is frozen (SIGSTOP), works again,
is dead (SIGKILL). Prints the latency of runs in each phase, and the memory of every process at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from archon.client import Client
from tests.bench.drive import GOAL
from tests.bench.pipeline import PARTS
from tests.bench.processes import Processes
from tests.bench.tracing import exporting
from tests.fixtures.jaeger import JaegerProcess, jaeger_program

CONCURRENCY = 8


async def load(target: str, seconds: float) -> list[float]:
    """Returns the latencies in seconds of runs at CONCURRENCY during so many seconds, sorted. Raises if one fails."""
    latencies: list[float] = []
    deadline = time.monotonic() + seconds
    async with Client(target) as client:

        async def worker() -> None:
            while time.monotonic() < deadline:
                began = time.perf_counter()
                handle = await client.submit(GOAL, wait=30.0)
                assert handle.run is not None and not handle.run.proto.failure.message
                latencies.append(time.perf_counter() - began)

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return sorted(latencies)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase")
    given = parser.parse_args()
    program = jaeger_program()
    if program is None:
        sys.exit("Jaeger is neither in .tools/bin nor on PATH: `make tools` builds it")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        jaeger = stack.enter_context(JaegerProcess(program, home / "jaeger"))
        processes = stack.enter_context(Processes(home))
        environment = exporting(jaeger.otlp)
        registry, agents = processes.members(**environment)
        target = processes.orchestrator(registry, "normal", **environment)
        pids = [os.getpid(), *(processes.pids[address] for address in (target, *agents))]
        phases = {
            "warm-up": None,
            "working": None,
            "frozen": jaeger.freeze,
            "working again": jaeger.thaw,
            "dead": jaeger.kill,
        }
        table = Table("collector", "runs", "p50 ms", "p99 ms", *(f"{part} MiB" for part in PARTS))
        for phase, begin in phases.items():
            if begin is not None:
                begin()
            latencies = uvloop.run(load(target, given.seconds))
            memory = [psutil.Process(pid).memory_info().rss / 2**20 for pid in pids]
            p50, p99 = (latencies[int(len(latencies) * part)] * 1e3 for part in (0.5, 0.99))
            table.add_row(phase, str(len(latencies)), f"{p50:.1f}", f"{p99:.1f}", *(f"{size:.0f}" for size in memory))
        Console(width=130).print(table)


if __name__ == "__main__":
    main()
