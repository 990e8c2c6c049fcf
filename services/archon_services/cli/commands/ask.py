"""`archon ask`: one answer to a query, by whichever roles of the mesh it needs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import OK, CliError
from archon_services.cli.options import OrchestratorOption
from archon_services.cli.target.mesh import connecting, orchestrator_flag

if TYPE_CHECKING:
    from archon.client import Goal
    from archon.strategy_choice import StrategyChoice
    from archon_services.cli.follow_run import RunOutcome

ROLES: Final = ("planner", "researcher", "writer", "coder")
"""The roles of the temporary mesh that is started if none is running."""


def ask(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query; - reads it from standard input.")] = "",
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A text, image, audio or other file to attach to the query, or to use as the query. Repeatable.",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="A role that may take part; by default all with an instance. Repeatable."),
    ] = None,
    planner: Annotated[str, typer.Option(metavar="ROLE", help="The role that plans; by default planner.")] = "",
    session: Annotated[str, typer.Option(metavar="ID", help="The session whose shared memory the run uses.")] = "",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The time limit of the run; by default 1 h.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Answer a query. Prints the answer to standard output, and how it was found to standard error.

    A query of one step is answered by the role that fits it; one of several steps is planned, and its steps go to the
    roles that fit them. Uses the mesh in ARCHON_HOME; if none is running, starts a temporary one.
    """
    from archon_services.cli.text_input import read_goal

    text = read_goal(query, file or [], "query", hint='Pass it as an argument, as in: archon ask "..."')
    outcome = asyncio.run(_ask(text, tuple(role or ()), planner, session, timeout, orchestrator, quiet=quiet))
    _print(outcome)
    raise typer.Exit(outcome.code)


async def _ask(
    query: Goal,
    roles: tuple[str, ...],
    planner: str,
    session: str,
    timeout: float | None,
    orchestrator: str,
    *,
    quiet: bool,
) -> RunOutcome:
    from archon.client import Client
    from archon_services.cli.follow_run import RunRequest, submit_and_follow
    from archon_services.cli.render.output import print_stderr
    from archon_services.cli.render.run_screen import LineScreen, QuietScreen
    from archon_services.cli.target.temporary_mesh import running_or_own_mesh
    from archon_services.local_mesh import SERVICES, MeshOptions

    options = MeshOptions(only=(*SERVICES, *ROLES))
    async with running_or_own_mesh(orchestrator, quiet=quiet, options=options) as (target, signals):
        with connecting("orchestrator", target.orchestrator):
            async with Client(target.orchestrator) as client:
                choice = await signals.guard(client.choose_strategy(query, roles=roles, planner=planner))
        if not quiet:
            print_stderr(_reason(choice))
        flag = orchestrator_flag(orchestrator)
        screen = QuietScreen(flag) if quiet else LineScreen(flag=flag)
        request = RunRequest(
            query,
            choice.roles,
            session,
            timeout,
            choice.strategy,
            planner=planner if choice.strategy == "plan" else "",
        )
        return await submit_and_follow(target, request, screen, signals)


def _reason(choice: StrategyChoice) -> str:
    how = f"asking {choice.roles[0]}" if choice.strategy == "agent" else "planning"
    return f"{how}: {choice.reason}"


def _print(outcome: RunOutcome) -> None:
    """Prints the answer. Raises CliError if the run ended without success."""
    from archon_services.cli.render.answer import shown_answer
    from archon_services.cli.render.output import is_terminal, strip_controls
    from archon_services.cli.render.run_view import state_name

    run = outcome.run
    if outcome.code == OK:
        text = shown_answer(run)
        sys.stdout.write((strip_controls(text) if is_terminal() else text).rstrip("\n") + "\n")
        return
    failure = f": {run.failure.message}" if run.failure.message else ""
    raise CliError(
        f"run {run.run_id} {state_name(run.state)}{failure}",
        hint=f"`archon show {run.run_id[:12]}` shows what happened.",
        code=outcome.code,
    )
