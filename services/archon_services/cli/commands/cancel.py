"""`archon cancel`: asks for a run to end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.target.mesh import OrchestratorOption, find_orchestrator, reaching
from archon_services.cli.target.run import RunArgument, find_run

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run


def cancel(
    run: RunArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the run.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Return when the run has ended.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Cancel a run; one that has ended stays as it is."""
    print(asyncio.run(_cancel(find_orchestrator(orchestrator), run, reason, wait=wait)))


async def _cancel(orchestrator: str, named: str, reason: str, *, wait: bool) -> str:
    from archon.client import FINAL_STATES, Client, RunHandle
    from archon_services.cli.render.run_view import state_name

    with reaching("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            before = await client.get(await find_run(client, named))
            if before.state in FINAL_STATES:
                return f"Run {before.run_id} has already ended: {state_name(before.state)}."
            asked = await client.cancel(before.run_id, reason)
            run: Run = await RunHandle(client, asked).result() if wait else asked
    if run.state not in FINAL_STATES:
        return f"Run {run.run_id} is being cancelled."
    return f"Run {run.run_id} has ended: {state_name(run.state)}."
