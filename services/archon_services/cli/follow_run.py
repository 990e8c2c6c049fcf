"""One run from submit to end, with Ctrl-C: once asks for it to be cancelled, twice leaves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client, Goal
from archon_services.cli.errors import FAILED, INTERRUPTED, OK, Interrupted
from archon_services.cli.interrupts import Signals, exit_code
from archon_services.cli.render.memory_versions import memory_versions
from archon_services.cli.render.run_screen import Screen
from archon_services.cli.target.mesh import Target, reaching

_PATIENCE: Final = 15.0  # for an orchestrator that is gone in the middle of a run


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run."""

    goal: Goal
    roles: Sequence[str] = ()
    session_id: str = ""
    timeout: float | None = None
    strategy: str = ""
    budget: common_pb2.Budget | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The run as it ended, its exit code, and the versions of its answers in the shared memory, by role."""

    run: run_pb2.Run
    code: int
    versions: Mapping[str, int]


async def run_to_end(target: Target, order: Order, screen: Screen, signals: Signals) -> Outcome:
    """Submits, follows and returns the run. Raises Interrupted where the person left before its end."""
    with reaching("orchestrator", target.orchestrator):
        async with Client(target.orchestrator) as client:
            handle = await signals.guard(
                client.submit(
                    order.goal,
                    roles=order.roles,
                    strategy=order.strategy,
                    budget=order.budget,
                    session_id=order.session_id,
                    timeout=order.timeout,
                )
            )
            following = asyncio.create_task(_follow(client, handle.run_id, screen), name="follow")
            try:
                cancelled = await _until_end(client, handle.run_id, following, screen, signals)
            except Interrupted:
                screen.close()
                screen.note(f"Left run {handle.run_id}, which may go on; `archon runs` tells.")
                raise
            finally:
                following.cancel()
                await asyncio.wait({following})
                screen.close()
            run = await client.get(handle.run_id)
    versions = await memory_versions(target.memory, run)
    if run.state == common_pb2.TASK_STATE_COMPLETED:
        return Outcome(run, OK, versions)
    return Outcome(run, INTERRUPTED if cancelled else FAILED, versions)


async def _follow(client: Client, run_id: str, screen: Screen) -> None:
    async with aclosing(client.watch(run_id, patience=_PATIENCE)) as events:
        async for event in events:
            screen.event(event)


async def _until_end(
    client: Client, run_id: str, following: asyncio.Task[None], screen: Screen, signals: Signals
) -> bool:
    """Returns whether the person asked for the run to be cancelled."""
    number = await signals.race(following)
    if number is None:
        following.result()
        return False
    if number is not signal.SIGINT:
        raise Interrupted(exit_code(number, asked=FAILED))
    screen.note("Cancelling the run; Ctrl-C again leaves.")
    cancelling = asyncio.create_task(client.cancel(run_id, "Ctrl-C"), name="cancel")
    try:
        if await signals.race(following) is not None:
            raise Interrupted(INTERRUPTED)
        following.result()
    finally:
        cancelling.cancel()
        await asyncio.wait({cancelling})
        if not cancelling.cancelled() and cancelling.exception() is not None:
            screen.note(f"The run could not be cancelled: {cancelling.exception()}")
    return True
