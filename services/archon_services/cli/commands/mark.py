"""`archon mark`: marks a run."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.identity import calling_as
from archon_services.cli.options import IdentityOption, OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id


def mark(
    run: RunArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, at most 4,096 characters.")] = "",
    remove: Annotated[bool, typer.Option("--remove", help="Remove all marks of the run.")] = False,
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Mark a run as of interest, for the rules of retention; --remove removes its marks.

    Your earlier mark of it is replaced. `archon show` prints the marks.
    """
    if remove and reason:
        raise CliError("--reason says why a run is marked, and --remove removes the marks", code=USAGE)
    with calling_as(identity, orchestrator):
        run_id = asyncio.run(_mark(find_orchestrator(orchestrator), run, reason, remove=remove))
    print(f"Removed the marks of run {run_id}." if remove else f"Marked run {run_id}.")


async def _mark(orchestrator: str, name: str, reason: str, *, remove: bool) -> str:
    async with orchestrator_client(orchestrator) as client:
        run_id = await find_run_id(client, name)
        await (client.unmark(run_id) if remove else client.mark(run_id, reason))
    return run_id
