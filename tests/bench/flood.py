"""python -m tests.bench.flood: whether an agent that floods its runs with messages slows other runs down, as ratios.

Runs of three roles come at random times, so many a second, once without and once beside runs of a fourth role, whose one
instance sends messages as fast as the mesh accepts them, up to a rate. Both are measured in each round, in turns; figures
are medians over the rounds. The aim is a p50 and a p95 of at most 1.2 times those without the flood.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc.aio
import uvloop
from rich.console import Console
from rich.table import Table

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.channel import service_options
from archon.client import Client
from archon.errors import ArchonError
from archon.server import signalled
from tests.bench.drive import GOAL, ROLES, Measured, announce, trickle
from tests.bench.pipeline import fdatasync_p50
from tests.bench.processes import Processes

FLOODER: Final = "flooder"
PER_RUN: Final = 1_000
"""Messages of one run of the flooder: as many as a run may have."""

AT_ONCE: Final = 50
"""Messages of one run that wait for the journal at a time."""

AIM: Final = 1.2


@dataclass
class Flood:
    """The messages a second of each flood."""

    rates: list[float] = field(default_factory=list)


async def flood(task: TaskContext) -> str:
    """Sends PER_RUN messages to all, and answers how many were accepted."""
    left, accepted = iter(range(PER_RUN)), 0

    async def send() -> None:
        nonlocal accepted
        for number in left:
            await task.send(f"message {number}")
            accepted += 1

    await asyncio.gather(*(send() for _ in range(AT_ONCE)), return_exceptions=True)
    return str(accepted)


async def serve() -> None:
    """Serves the role of the flood until SIGTERM."""
    settings = AgentSettings(registry=os.environ["ARCHON_REGISTRY"])
    server = AgentServer(FLOODER, handler=flood, max_tasks=256, settings=settings)
    announce(await server.start())
    await signalled().wait()
    await server.stop(0.0)


@asynccontextmanager
async def flooded(target: str, rate: int, made: Flood) -> AsyncIterator[None]:
    """Floods within the block: runs of the flooder begin so often that they send `rate` messages a second, if the mesh
    accepts so many. Adds their rate to `made`."""
    began = time.perf_counter()
    limit = asyncio.Semaphore(max(1, 4 * rate // PER_RUN))
    run_ids: list[str] = []

    async def one(client: Client) -> None:
        try:
            handle = await client.submit(GOAL, roles=[FLOODER])
            run_ids.append(handle.run_id)
            await handle.result(30)
        except ArchonError:
            return  # refused, or failed
        finally:
            limit.release()

    async def go_on(client: Client) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await limit.acquire()
                group.create_task(one(client))
                await asyncio.sleep(PER_RUN / rate)

    async with Client(target) as client:
        flooding = asyncio.create_task(go_on(client))
        try:
            yield
        finally:
            lasted = time.perf_counter() - began
            flooding.cancel()
            await asyncio.wait([flooding])
            # Nearly all events of such a run are its messages.
            sent = sum([(await client.get(run_id)).last_seq for run_id in run_ids])
            made.rates.append(sent / lasted)
            for run_id in run_ids:
                await client.cancel(run_id)


async def unary(target: str, runs: int, rate: int) -> Measured:
    """Runs of the three roles, by SubmitRun with wait over bare stubs."""
    async with grpc.aio.insecure_channel(target, options=service_options()) as channel:
        stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        request = pb.SubmitRunRequest(goal=[common_pb2.Part(text=GOAL)], roles=ROLES)
        request.wait.seconds = 30

        async def one() -> None:
            response = await stub.SubmitRun(request)
            assert response.run.state == common_pb2.TASK_STATE_COMPLETED, response.run.failure

        async with asyncio.timeout(10):
            while True:
                try:
                    await one()
                    break
                except Exception:  # noqa: BLE001 - the orchestrator has to have heard of the agents first
                    await asyncio.sleep(0.1)
        return await trickle(one, runs, rate)


async def measure(target: str, rounds: int, runs: int, rate: int, messages: int) -> tuple[Measured, Measured, Flood]:
    """Returns medians over interleaved rounds without and with the flood, and the flood."""
    quiet: list[Measured] = []
    beside: list[Measured] = []
    made = Flood()
    for _ in range(rounds):
        quiet.append(await unary(target, runs, rate))
        async with flooded(target, messages, made):
            beside.append(await unary(target, runs, rate))
    return _medians(quiet), _medians(beside), made


def _medians(all_: list[Measured]) -> Measured:
    return Measured(
        *(statistics.median(getattr(each, part) for each in all_) for part in ("p50", "rate", "p95", "p99"))
    )


def main() -> None:
    """Prints the table, or serves the flooder."""
    if sys.argv[1:] == [FLOODER]:
        uvloop.run(serve())
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=30, help="runs of three roles a second, on average")
    parser.add_argument("--messages", type=int, default=10_000, help="messages a second of the flood")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a measurement")
    parser.add_argument("--journals", default="normal,full", help="memory, normal, full, separated by commas")
    given = parser.parse_args()
    table = Table(f"{given.rate} runs a second", "without", "beside the flood", f"change (aim {AIM:g})")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sync = fdatasync_p50(home)
        processes = stack.enter_context(Processes(home))
        for journal in given.journals.split(","):
            registry, _ = processes.members()
            processes.start("tests.bench.flood", FLOODER, ARCHON_REGISTRY=registry)
            orchestrator = processes.orchestrator(registry, journal)
            runs = max(1, int(given.rate * given.seconds))
            quiet, beside, made = uvloop.run(measure(orchestrator, given.rounds, runs, given.rate, given.messages))
            for part in ("p50", "p95", "p99"):
                one, other = getattr(quiet, part), getattr(beside, part)
                table.add_row(
                    f"{journal}, {part}", f"{one * 1e3:.2f} ms", f"{other * 1e3:.2f} ms", f"{other / one:.2f}"
                )
            accepted = statistics.median(made.rates)
            table.add_row(f"{journal}, messages a second", "0", f"{accepted:,.0f} of {given.messages:,}", "")
    console = Console(width=120)
    console.print(f"fdatasync p50 of the disk: {sync * 1e6:.0f} us; {given.rounds} rounds; medians")
    console.print(table)


if __name__ == "__main__":
    main()
