"""`archon rerun`: continues an ended run in a new one, which reuses its completed tasks."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from archon_services.cli.commands.run import make_screen, print_outcome
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import JsonEventsOption, OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import orchestrator_flag
from archon_services.cli.target.temporary_mesh import running_or_own_mesh


def rerun(
    run: RunArgument,
    as_json: JsonEventsOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Continue an ended run in a new run.

    The new run has the goal, the plan and the settings of the ended one. It reuses the answers of the tasks that had
    completed and the answers of people, and executes the other tasks anew. Prints the same as `archon run`. Ctrl-C
    cancels the new run, a second Ctrl-C detaches from it.
    """
    if as_json and quiet:
        raise CliError("--json and --quiet are mutually exclusive", code=USAGE)
    raise typer.Exit(asyncio.run(_rerun(run, orchestrator, as_json=as_json, quiet=quiet)))


async def _rerun(name: str, orchestrator: str, *, as_json: bool, quiet: bool) -> int:
    from archon_services.cli.follow_run import fork_and_follow

    flag = orchestrator_flag(orchestrator)
    async with running_or_own_mesh(orchestrator, quiet=quiet) as (target, signals):
        screen = make_screen(as_json=as_json, quiet=quiet, flag=flag)
        outcome = await fork_and_follow(target, name, screen, signals, quiet=quiet)
    if not as_json:
        print_outcome(outcome, quiet=quiet, flag=flag)
    return outcome.code
