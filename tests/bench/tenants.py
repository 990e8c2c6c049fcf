"""python -m tests.bench.tenants: whether the 5,000 runs of one tenant delay the first run of another, as ratios.

Each tenant has an agent of its own. The run of `blue` has one task of so many milliseconds; it is measured alone, then while
`acme` submits its runs as fast as it can, then while these wait for the slots of acme's agent. Figures are medians; the
aim is at most 1.2 times the time alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console
from rich.table import Table

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.client import Client
from archon.errors import ArchonError
from archon.principal import Kind
from archon.server import signalled
from tests.bench.drive import GOAL, announce
from tests.bench.processes import Processes
from tests.bench.security import Security

ROLE: Final = "worker"
AIM: Final = 1.2
FLOOD_SECONDS: Final = 0.5
"""Of a task of the tenant with many runs."""


async def serve(seconds: float, slots: int) -> None:
    """Serves the role until SIGTERM; each task takes so many seconds."""

    async def work(task: TaskContext) -> str:
        await asyncio.sleep(seconds)
        return "done"

    settings = AgentSettings(registry=os.environ["ARCHON_REGISTRY"])
    server = AgentServer(ROLE, handler=work, max_tasks=slots, settings=settings)
    announce(await server.start())
    await signalled().wait()
    await server.stop(0.0)


async def one(client: Client) -> float:
    """Returns the seconds of a run."""
    began = time.perf_counter()
    await (await client.submit(GOAL, roles=[ROLE], wait=30)).result(60)
    return time.perf_counter() - began


async def measured(client: Client, times: int) -> list[float]:
    """Returns the seconds of runs, one after another."""
    return [await one(client) for _ in range(times)]


async def submitted(client: Client, runs: int) -> int:
    """Submits runs as fast as possible. Returns how many were accepted."""
    limit = asyncio.Semaphore(500)

    async def submit() -> int:
        async with limit:
            try:
                await client.submit(GOAL, roles=[ROLE])
            except ArchonError:
                return 0
            return 1

    return sum(await asyncio.gather(*(submit() for _ in range(runs))))


async def submit_all(target: str, runs: int) -> None:
    """Submits runs with the token of this process."""
    async with Client(target) as client:
        accepted = await submitted(client, runs)
    print(f"{accepted:,} of {runs:,} runs were accepted", file=sys.stderr)


async def ready(client: Client) -> None:
    """Waits until the orchestrator knows the agents."""
    async with asyncio.timeout(10):
        while True:
            try:
                await one(client)
                return
            except ArchonError:
                await asyncio.sleep(0.1)


async def measure(
    security: Security, target: str, runs: int, times: int
) -> tuple[list[float], list[float], list[float], int]:
    """Returns the seconds of blue's runs alone, beside submits, and beside waiting runs; and how many acme has."""
    async with security.client(target, "acme") as acme, security.client(target, "blue") as blue:
        await ready(acme)
        await ready(blue)
        alone = await measured(blue, times)
        token = security.environment(Kind.ADMIN, "client", "acme")["ARCHON_TOKEN"]
        submitter = await asyncio.create_subprocess_exec(  # of its own, which does not hold up the measured client
            sys.executable,
            "-m",
            "tests.bench.tenants",
            "submit",
            target,
            str(runs),
            env={**os.environ, "ARCHON_TOKEN": token},
        )
        ended = asyncio.create_task(submitter.wait())
        await asyncio.sleep(1.0)  # it has begun
        beside_submits = []
        while not ended.done():
            beside_submits.append(await one(blue))
        accepted = len(await acme.list_runs(limit=1_000))
        return alone, beside_submits, await measured(blue, times), accepted


def main() -> None:
    """Prints the table, or serves an agent."""
    if sys.argv[1:2] == ["agent"]:
        uvloop.run(serve(float(sys.argv[2]), int(sys.argv[3])))
        return
    if sys.argv[1:2] == ["submit"]:
        uvloop.run(submit_all(sys.argv[2], int(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5_000, help="of the other tenant")
    parser.add_argument("--task", type=float, default=0.2, help="seconds of a task of the measured run")
    parser.add_argument("--times", type=int, default=20, help="measured runs")
    given = parser.parse_args()
    table = Table(
        f"a run with a task of {given.task * 1e3:.0f} ms", "median", f"to alone (aim {AIM:g})", "most", "runs"
    )
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = stack.enter_context(Processes(home))
        security = Security("tokens", home)
        registry = processes.start(
            "archon_services.registry", ARCHON_ETCD="memory", **security.environment(Kind.SERVICE, "registry")
        )
        for tenant, seconds in (("acme", FLOOD_SECONDS), ("blue", given.task)):
            of_agent = security.environment(Kind.AGENT, ROLE, tenant)
            processes.start("tests.bench.tenants", "agent", str(seconds), "16", ARCHON_REGISTRY=registry, **of_agent)
        target = processes.orchestrator(
            registry, "normal", ARCHON_MAX_RUNS="10000", **security.environment(Kind.SERVICE, "orchestrator")
        )
        alone, submits, waiting, accepted = uvloop.run(measure(security, target, given.runs, given.times))
        for name, found in (
            ("alone", alone),
            ("beside submits", submits),
            (f"beside {accepted:,} waiting runs or more", waiting),
        ):
            ratio = statistics.median(found) / statistics.median(alone)
            table.add_row(
                name,
                f"{statistics.median(found) * 1e3:.1f} ms",
                f"{ratio:.2f}",
                f"{max(found) * 1e3:.1f} ms",
                str(len(found)),
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
