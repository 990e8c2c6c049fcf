"""`archon up`: starts a mesh on this machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from archon.plain_text import duration
from archon_services.cli.contexts import active_context, find_home
from archon_services.cli.errors import OK, USAGE, CliError, Interrupted
from archon_services.cli.interrupts import Signals, exit_code
from archon_services.cli.name_pairs import read_pairs
from archon_services.cli.page_build import build_detached, building_page
from archon_services.cli.render.mesh_screen import MeshLines, MeshScreen, mesh_table
from archon_services.cli.render.output import console, is_terminal, print_stderr
from archon_services.cli.target.temporary_mesh import own_mesh
from archon_services.cli.wrapping import wrapped
from archon_services.local_mesh import Home, MeshOptions, MeshState, live_state, spawn, stop_mesh, wait_ready
from archon_services.local_mesh.browser_login import login_address
from archon_services.local_mesh.options import ROLES


def up(
    replicas: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=N", help="The number of processes of a role. Repeatable.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE",
            help="Also start this role: researcher, writer, editor, coder, validator or arbiter. Repeatable.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Start only these services and roles; ARCHON_REGISTRY has the address of a registry elsewhere.",
        ),
    ] = None,
    port: Annotated[
        list[str] | None, typer.Option(metavar="SERVICE=PORT", help="A fixed port for a service. Repeatable.")
    ] = None,
    etcd: Annotated[
        str, typer.Option(envvar="ARCHON_ETCD", metavar="HOST:PORT", help="Your own etcd instead of the bundled one.")
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_MODEL",
            metavar="MODEL",
            help="The model of all roles, such as offline, openai/NAME or anthropic/NAME.",
        ),
    ] = "",
    jaeger: Annotated[bool, typer.Option("--jaeger", help="Start Jaeger too, and export all traces to it.")] = False,
    jaeger_binary: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_JAEGER",
            metavar="FILE",
            help="Jaeger's program; by default jaeger on PATH or in .tools/bin.",
        ),
    ] = "",
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Encrypt the connections between the processes, with certificates of their own."),
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background; return when it is ready.")] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Print the logs of all processes.")] = False,
) -> None:
    """Start a mesh on this machine.

    Starts etcd, registry, memory, orchestrator, the HTTP gateway, and the roles requirements, designer, implementer,
    coordinator and planner, each as its own process.

    Restarts processes that crash; Ctrl-C stops all of them. State, data and logs are in ARCHON_HOME, by default .archon
    in the current directory.
    """
    if detach and logs:
        raise CliError(
            "--detach and --logs are mutually exclusive", hint="The logs are in ARCHON_HOME/logs.", code=USAGE
        )
    options = MeshOptions(
        replicas=read_pairs(replicas or (), "--replicas", "designer=2"),
        only=_read_names(only or ()),
        roles=_read_names(role or ()),
        ports=read_pairs(port or (), "--port", "orchestrator=7100"),
        etcd=etcd,
        model=model,
        jaeger=_find_jaeger(jaeger_binary) if jaeger else "",
        tls=tls,
    )
    home = find_home()
    _warn(options)
    if any(map(options.wants, ROLES)):
        asyncio.run(require_model(model or "offline"))
    if detach:
        start_detached(home, options)
    else:
        asyncio.run(_foreground(home, options, logs=logs))


def _find_jaeger(path: str) -> str:
    """Returns the path of Jaeger's program. Raises CliError if there is none."""
    from archon.errors import NotFound
    from archon_services.local_mesh.jaeger import find_jaeger

    try:
        return str(find_jaeger(path))
    except NotFound as error:
        raise CliError(f"cannot start Jaeger: {error}", code=USAGE) from error


def start_detached(home: Home, options: MeshOptions) -> MeshState:
    """Starts a mesh that outlives this command and returns when it is ready. Ctrl-C during the start stops it."""
    began = time.monotonic()
    process = spawn(home, options)
    try:
        if is_terminal():
            with console().status("starting the mesh"):
                state = wait_ready(home, process)
            console().print(mesh_table(state))
        else:
            state = wait_ready(home, process, on_state=MeshLines().show)
    except KeyboardInterrupt:
        stop_mesh(home)
        raise
    print(wrapped(f"Mesh ready after {duration(time.monotonic() - began)} in {home.root}. `archon down` stops it."))
    if address := login_address(home, state):
        print(f"In a browser, once: {address}" if not is_terminal() else f"In a browser, once:\n{address}")
        if is_terminal() and (line := build_detached(home.logs / "web-page.log")):
            print(wrapped(line))
    return state


def _warn(options: MeshOptions) -> None:
    """Prints notes about settings of the mesh that its user may not expect."""
    for role in ROLES:
        if options.wants(role) and options.replicas.get(role) == 0:
            print_stderr(f"note: {role} has no instance until `archon scale {role}=1`")
    active = active_context()
    if active is not None and active[1].orchestrator:
        print_stderr(f"note: commands go to the mesh of the context {active[0]}, not to this one")


async def require_model(spec: str) -> None:
    """Raises CliError if the agents of a mesh could not use this model."""
    from archon_services.cli.checks.model import check_model

    for finding in await check_model(spec, os.environ, online=False):
        if finding.level == "problem":
            raise CliError(finding.message, hint=finding.hint, code=USAGE)


async def _foreground(home: Home, options: MeshOptions, *, logs: bool) -> None:
    began = time.monotonic()
    screen = MeshScreen(table=is_terminal() and not logs, logs=logs)
    with Signals() as signals:
        try:
            async with own_mesh(home, options, signals, created=screen.open):
                state = live_state(home)
                address = login_address(home, state) if state is not None else ""
                ready = (f"In a browser, once:\n{address}\n" if address else "") + (
                    f"Ready after {duration(time.monotonic() - began)}. Ctrl-C stops the mesh. "
                    'In another terminal: archon run "..."'
                )
                screen.footer(ready)
                async with AsyncExitStack() as stack:
                    if address and is_terminal():
                        await stack.enter_async_context(building_page(lambda line: screen.footer(f"{ready}\n{line}")))
                    signum = await signals.next()
                screen.footer("Stopping. Press Ctrl-C again to kill the remaining processes.")
        finally:
            await screen.close()
    print("Mesh stopped.")
    raise Interrupted(exit_code(signum, terminated=OK))


def _read_names(values: Iterable[str]) -> tuple[str, ...]:
    """Splits comma-separated names."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())
