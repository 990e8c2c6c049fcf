"""Follows a run from its submission to its end. The first Ctrl-C cancels the run, the second one detaches from it."""

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
from archon_services.cli.render.run_screen import Screen
from archon_services.cli.target.memory_versions import memory_versions
from archon_services.cli.target.mesh import Target, connecting

_PATIENCE: Final = 15.0
"""Seconds to wait for an orchestrator that becomes unreachable in the middle of a run."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Arguments of `Client.submit`."""

    goal: Goal
    roles: Sequence[str] = ()
    session_id: str = ""
    timeout: float | None = None
    strategy: str = ""
    budget: common_pb2.Budget | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """An ended run, the exit code for it, and the versions of its answers in shared memory by role."""

    run: run_pb2.Run
    code: int
    versions: Mapping[str, int]


async def submit_and_follow(target: Target, request: RunRequest, screen: Screen, signals: Signals) -> RunOutcome:
    """Submits a run and returns when it has ended. Raises Interrupted if the user detached from it before."""
    with connecting("orchestrator", target.orchestrator):
        async with Client(target.orchestrator) as client:
            handle = await signals.guard(
                client.submit(
                    request.goal,
                    roles=request.roles,
                    strategy=request.strategy,
                    budget=request.budget,
                    session_id=request.session_id,
                    timeout=request.timeout,
                )
            )
            following = asyncio.create_task(follow(client, handle.run_id, screen), name="follow")
            try:
                cancelled = await _until_end(client, handle.run_id, following, screen, signals)
            except Interrupted:
                screen.close()
                screen.note(f"Detached from run {handle.run_id}, which may still be running: see `archon runs`.")
                raise
            finally:
                following.cancel()
                await asyncio.wait({following})
                screen.close()
            run = await client.get(handle.run_id)
    versions = await memory_versions(target.memory, run)
    if run.state == common_pb2.TASK_STATE_COMPLETED:
        return RunOutcome(run, OK, versions)
    return RunOutcome(run, INTERRUPTED if cancelled else FAILED, versions)


async def follow(client: Client, run_id: str, screen: Screen, *, after_seq: int = 0) -> None:
    """Passes the events of a run after `after_seq` to `screen` until the run has ended."""
    async with aclosing(client.watch(run_id, after_seq, patience=_PATIENCE)) as events:
        async for event in events:
            screen.event(event)


async def _until_end(
    client: Client, run_id: str, following: asyncio.Task[None], screen: Screen, signals: Signals
) -> bool:
    """Returns whether the user cancelled the run. Raises Interrupted if the user detached from it."""
    signum = await signals.race(following)
    if signum is None:
        following.result()
        return False
    if signum is not signal.SIGINT:
        raise Interrupted(exit_code(signum, terminated=FAILED))
    screen.note("Cancelling the run. Press Ctrl-C again to detach.")
    cancelling = asyncio.create_task(client.cancel(run_id, "Ctrl-C"), name="cancel")
    try:
        if await signals.race(following) is not None:
            raise Interrupted(INTERRUPTED)
        following.result()
    finally:
        cancelling.cancel()
        await asyncio.wait({cancelling})
        if not cancelling.cancelled() and cancelling.exception() is not None:
            screen.note(f"Cannot cancel the run: {cancelling.exception()}")
    return True
