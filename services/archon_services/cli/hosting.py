"""A mesh that belongs to a command: up while the command needs it, ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from archon_services.cli.signals import Signals
from archon_services.mesh_up import Home, MeshOptions, Supervisor, make_plan


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
