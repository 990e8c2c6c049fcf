"""A mesh that belongs to one command: started before the command needs it, stopped after it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

from archon_services.cli.contexts import find_home
from archon_services.cli.interrupts import Signals
from archon_services.cli.render.output import console, print_stderr
from archon_services.cli.target.mesh import Target, target_of, target_or_none
from archon_services.local_mesh import Home, MeshOptions, Supervisor, make_plan


@asynccontextmanager
async def own_mesh(
    home: Home, options: MeshOptions, signals: Signals, *, created: Callable[[Supervisor], None] | None = None
) -> AsyncIterator[Supervisor]:
    """Starts a mesh, yields when it is ready, and stops it.

    `created` gets the supervisor before any process starts. A signal during the start raises Interrupted; a signal
    during the stop, usually the second Ctrl-C, kills the remaining processes. Raises FailedPrecondition if the folder
    was removed meanwhile.
    """
    with home.hold():
        supervisor = Supervisor(home, make_plan(home, options))
        if created is not None:
            created(supervisor)
        try:
            await signals.guard(supervisor.start())
            yield supervisor
        finally:
            stopping = asyncio.create_task(supervisor.stop(), name="stop the mesh")
            while not stopping.done():
                if await signals.race(stopping) is not None:
                    supervisor.kill()
            stopping.result()
            supervisor.check_folder()


@asynccontextmanager
async def running_or_own_mesh(
    orchestrator: str, *, quiet: bool = False, options: MeshOptions | None = None
) -> AsyncIterator[tuple[Target, Signals]]:
    """Yields the explicit mesh or the one in ARCHON_HOME, else a temporary one with these options; and the signals
    during the block."""
    home = find_home()
    target = target_or_none(orchestrator, home)
    with Signals() as signals, ExitStack() as starting:
        if target is not None:
            yield target, signals
            return
        if not quiet:
            print_stderr("No mesh is running: starting a temporary one (`archon up` starts one to keep).")
        if sys.stderr.isatty():
            starting.enter_context(console(stderr=True).status("starting the mesh"))
        async with own_mesh(home, options or MeshOptions(), signals) as mesh:
            starting.close()
            yield target_of(mesh.state()), signals
