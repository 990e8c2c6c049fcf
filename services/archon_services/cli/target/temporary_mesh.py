"""A mesh that belongs to a command: up while the command needs it, ended with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

from archon_services.cli.interrupts import Signals
from archon_services.cli.render.output import console, say
from archon_services.cli.target.mesh import Target, target_of, target_or_none
from archon_services.local_mesh import Home, MeshOptions, Supervisor, make_plan


@asynccontextmanager
async def own_mesh(
    home: Home, options: MeshOptions, signals: Signals, *, made: Callable[[Supervisor], None] | None = None
) -> AsyncIterator[Supervisor]:
    """Starts a mesh, yields when it is ready, and ends it. `made` gets the supervisor before anything is started. A
    signal ends the start; one while the mesh is being ended, that is a second one, kills what is left."""
    with home.hold():
        supervisor = Supervisor(home, make_plan(home, options))
        if made is not None:
            made(supervisor)
        try:
            await signals.guard(supervisor.start())
            yield supervisor
        finally:
            stopping = asyncio.create_task(supervisor.stop(), name="stop the mesh")
            while not stopping.done():
                if await signals.race(stopping) is not None:
                    supervisor.kill()
            stopping.result()


@asynccontextmanager
async def some_mesh(orchestrator: str, *, quiet: bool = False) -> AsyncIterator[tuple[Target, Signals]]:
    """The mesh that is named, or up here, else an own one; and the signals, which are heard while the block lasts."""
    home = Home.find()
    target = target_or_none(orchestrator, home)
    with Signals() as signals, ExitStack() as starting:
        if target is not None:
            yield target, signals
            return
        if not quiet:
            say(f"No mesh is up: starting one for this run, in {home.root} (`archon up` keeps one).")
        if sys.stderr.isatty():
            starting.enter_context(console(stderr=True).status("starting the mesh"))
        async with own_mesh(home, MeshOptions(), signals) as mesh:
            starting.close()
            yield target_of(mesh.state()), signals
