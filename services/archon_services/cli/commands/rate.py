"""`archon rate`: rates a run."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from archon_services.cli.identity import calling_as
from archon_services.cli.options import IdentityOption, OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id


def rate(
    run: RunArgument,
    stars: Annotated[int, typer.Argument(metavar="STARS", min=1, max=5, help="From 1 (bad) to 5 (good).")],
    comment: Annotated[str, typer.Option(metavar="TEXT", help="A comment, at most 4,096 characters.")] = "",
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Rate a run that has ended. Your earlier rating of it is replaced.

    A rating counts in the records of the instances that completed tasks of the run: `archon agents --metrics`.
    """
    with calling_as(identity, orchestrator):
        run_id = asyncio.run(_rate(find_orchestrator(orchestrator), run, stars, comment))
    print(f"Rated run {run_id}: {stars} of 5.")


async def _rate(orchestrator: str, name: str, stars: int, comment: str) -> str:
    async with orchestrator_client(orchestrator) as client:
        run_id = await find_run_id(client, name)
        await client.rate(run_id, stars, comment)
    return run_id
