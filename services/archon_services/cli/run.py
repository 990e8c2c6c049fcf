"""`archon run`: one goal, from submit to answer."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target import OrchestratorOption

if TYPE_CHECKING:
    from archon.client import Goal
    from archon_services.cli.following import Order, Outcome
    from archon_services.cli.run_screen import Screen


def run(
    goal: Annotated[
        str, typer.Argument(metavar="GOAL", help="What is to be done; - reads it from standard input.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="A text that belongs to the goal, or is the goal.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="Who takes part; all of the pipeline by default. Repeatable."),
    ] = None,
    session: Annotated[str, typer.Option(metavar="ID", help="The session whose shared memory the run works in.")] = "",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The run's time; 1 h by default.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON, and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Run a goal through the mesh: a live tree, the answer, a summary.

    Uses the mesh that is up in ARCHON_HOME; where none is, it starts one and ends it afterwards. Ctrl-C asks for the
    run to be cancelled, a second one leaves.
    """
    if as_json and quiet:
        raise CliError("--json and --quiet exclude each other", code=USAGE)
    text = _read_goal(goal, file)
    from archon_services.cli.following import Order

    order = Order(text, tuple(role or ()), session, timeout)
    raise typer.Exit(asyncio.run(run_order(order, orchestrator, as_json=as_json, quiet=quiet)))


async def run_order(order: Order, orchestrator: str, *, as_json: bool = False, quiet: bool = False) -> int:
    """Runs it on the mesh that is there, else on one of its own; shows it; returns the exit code."""
    from archon_services.cli.following import run_to_end
    from archon_services.cli.hosting import own_mesh
    from archon_services.cli.output import console, say
    from archon_services.cli.signals import Signals
    from archon_services.cli.target import target_of, target_or_none
    from archon_services.mesh_up import Home, MeshOptions

    home = Home.find()
    screen = _screen(as_json=as_json, quiet=quiet)
    target = target_or_none(orchestrator, home)
    with Signals() as signals, ExitStack() as starting:
        if target is not None:
            outcome = await run_to_end(target, order, screen, signals)
        else:
            if not quiet:
                say(f"No mesh is up: starting one for this run, in {home.root} (`archon up` keeps one).")
            if sys.stderr.isatty():
                starting.enter_context(console(stderr=True).status("starting the mesh"))
            async with own_mesh(home, MeshOptions(), signals) as mesh:
                starting.close()
                outcome = await run_to_end(target_of(mesh.state()), order, screen, signals)
    if not as_json:
        _show(outcome, quiet=quiet)
    return outcome.code


def _screen(*, as_json: bool, quiet: bool) -> Screen:
    from archon_services.cli.output import is_terminal
    from archon_services.cli.run_screen import JsonScreen, LineScreen, NoScreen, TreeScreen

    if as_json:
        return JsonScreen()
    if quiet:
        return NoScreen()
    return TreeScreen() if is_terminal() else LineScreen()


def _show(outcome: Outcome, *, quiet: bool) -> None:
    from archon_services.cli.output import say
    from archon_services.cli.run_view import state_name
    from archon_services.cli.summary import print_answer, print_summary

    print_answer(outcome.run)
    if not quiet:
        print_summary(outcome.run, outcome.versions)
    elif outcome.code:
        say(f"error: the run {state_name(outcome.run.state)}: {outcome.run.failure.message}")


def _read_goal(goal: str, file: Path | None) -> Goal:
    if goal == "-":
        goal = _decoded(sys.stdin.buffer.read(), "standard input")
    if file is None:
        if not goal.strip():
            raise CliError("there is no goal", hint='Say what is to be done, as in: archon run "..."', code=USAGE)
        return goal
    try:
        content = _decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise CliError(f"{file} can't be read: {error.strerror}", code=USAGE) from error
    if not goal.strip():
        if not content.strip():
            raise CliError(f"{file} is empty, so there is no goal", code=USAGE)
        return content
    from archon.api.common.v1 import common_pb2

    return [common_pb2.Part(text=goal), common_pb2.Part(text=content, filename=file.name)]


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is no text in UTF-8", code=USAGE) from error
