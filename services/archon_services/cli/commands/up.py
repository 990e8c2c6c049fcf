"""`archon up`: a mesh on this machine."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from rich.live import Live

    from archon_services.local_mesh import Home, MeshOptions, MeshState, Supervisor

FOOT = 'Ctrl-C ends it. In another terminal: archon run "..."'


def up(
    replicas: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=N", help="How many processes serve a role. Repeatable.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...", help="Only these services and roles; the rest is elsewhere (ARCHON_REGISTRY)."
        ),
    ] = None,
    port: Annotated[
        list[str] | None, typer.Option(metavar="SERVICE=PORT", help="A port that must be had. Repeatable.")
    ] = None,
    etcd: Annotated[
        str, typer.Option(envvar="ARCHON_ETCD", metavar="HOST:PORT", help="An own etcd instead of one started here.")
    ] = "",
    model: Annotated[
        str,
        typer.Option(envvar="ARCHON_MODEL", metavar="MODEL", help="The model of all roles: offline, or openai/NAME."),
    ] = "",
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running; return when it is ready.")] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Stream the logs of all processes.")] = False,
) -> None:
    """Start a mesh on this machine.

    etcd, registry, memory, orchestrator and the roles requirements, designer, implementer, coordinator, each its own
    process.

    Restarts what crashes; Ctrl-C ends all. State, data and logs are in ARCHON_HOME, by default .archon in the current
    directory.
    """
    from archon_services.local_mesh import Home, MeshOptions, read_names, read_pairs

    if detach and logs:
        raise CliError("--detach and --logs exclude each other", hint="The logs are in ARCHON_HOME/logs.", code=USAGE)
    options = MeshOptions(
        replicas=read_pairs(replicas or (), "--replicas", "designer=2"),
        only=read_names(only or ()),
        ports=read_pairs(port or (), "--port", "orchestrator=7100"),
        etcd=etcd,
        model=model,
    )
    home = Home.find()
    if detach:
        start_detached(home, options)
    else:
        asyncio.run(_foreground(home, options, logs=logs))


def start_detached(home: Home, options: MeshOptions) -> MeshState:
    """Starts a mesh that outlives this command; returns when it is ready. Ctrl-C meanwhile ends it again."""
    from archon_services.cli.render.mesh_screen import MeshLines, mesh_table
    from archon_services.cli.render.output import console, duration, is_terminal
    from archon_services.local_mesh import end_mesh, spawn, wait_ready

    began = time.monotonic()
    process = spawn(home, options)
    try:
        if is_terminal():
            with console().status("starting the mesh"):
                state = wait_ready(home, process)
            console().print(mesh_table(state))
        else:
            state = wait_ready(home, process, seen=MeshLines().show)
    except KeyboardInterrupt:
        end_mesh(home)
        raise
    print(f"The mesh is ready after {duration(time.monotonic() - began)}, in {home.root}; `archon down` ends it.")
    return state


async def _foreground(home: Home, options: MeshOptions, *, logs: bool) -> None:
    from archon_services.cli.errors import OK, Interrupted
    from archon_services.cli.interrupts import Signals, exit_code
    from archon_services.cli.render.output import duration, is_terminal
    from archon_services.cli.target.temporary_mesh import own_mesh

    began = time.monotonic()
    screen = _Screen(table=is_terminal() and not logs, logs=logs)
    number = None
    with Signals() as signals:
        try:
            async with own_mesh(home, options, signals, made=screen.open):
                screen.ready(duration(time.monotonic() - began))
                number = await signals.next()
                screen.ending()
        finally:
            await screen.close()
    print("The mesh has ended.")
    raise Interrupted(exit_code(number, asked=OK))


class _Screen:
    """A live table, lines, or logs."""

    def __init__(self, *, table: bool, logs: bool) -> None:
        self._table = table
        self._logs = logs
        self._foot = ""
        self._task: asyncio.Task[None] | None = None
        self._live: Live | None = None

    def open(self, supervisor: Supervisor) -> None:
        from archon_services.cli.render.mesh_screen import live_table

        if self._table:
            self._live = live_table(supervisor.state, lambda: self._foot)
            self._live.start()
        elif self._logs:
            self._task = asyncio.create_task(self._follow(supervisor), name="logs")
        else:
            self._task = asyncio.create_task(self._lines(supervisor), name="lines")

    def ready(self, after: str) -> None:
        self._foot = f"Ready after {after}. {FOOT}"
        if not self._table:
            from archon_services.cli.render.output import say

            say(self._foot)

    def ending(self) -> None:
        self._foot = "Ending; Ctrl-C again kills what is left."

    async def close(self) -> None:
        self._foot = ""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._live is not None:
            self._live.stop()

    async def _follow(self, supervisor: Supervisor) -> None:
        from archon_services.cli.render.logs import follow_logs
        from archon_services.cli.render.output import console, harmless

        names = [spec.name for spec in supervisor.plan.specs]
        out = console()
        styles = dict(zip(names, ("cyan", "green", "yellow", "magenta", "blue", "red") * len(names), strict=False))

        def show(name: str, line: str) -> None:
            out.print(f"[{styles[name]}]{name:<16}[/] │ ", end="")
            out.print(harmless(line), markup=False, soft_wrap=True)

        await follow_logs([(name, supervisor.home.log_file(name)) for name in names], show)

    async def _lines(self, supervisor: Supervisor) -> None:
        from archon_services.cli.render.mesh_screen import MeshLines

        lines = MeshLines()
        try:
            while True:
                lines.show(supervisor.state())
                await asyncio.sleep(0.05)
        finally:
            lines.show(supervisor.state())
