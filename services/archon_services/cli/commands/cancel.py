"""`archon cancel`: cancels a run."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from archon_services.cli.options import OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id


def cancel(
    run: RunArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which is stored with the run.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Return when the run has ended.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Cancel a run. Has no effect on a run that has ended."""
    print(asyncio.run(_cancel(find_orchestrator(orchestrator), run, reason, wait=wait)))


async def _cancel(orchestrator: str, name: str, reason: str, *, wait: bool) -> str:
    from archon.client import RunHandle

    async with orchestrator_client(orchestrator) as client:
        before = await client.get(await find_run_id(client, name))
        if before.state.final:
            return f"Run {before.run_id} has already ended: {before.state}."
        cancelled = await client.cancel(before.run_id, reason)
        run = await RunHandle(client, cancelled).result() if wait else cancelled
    if not run.state.final:
        return f"Cancelling run {run.run_id}."
    return f"Run {run.run_id} has ended: {run.state}."
