"""`archon resume`: a paused run goes on."""

from __future__ import annotations

import asyncio

from archon_services.cli.target.mesh import OrchestratorOption, find_orchestrator, reach_of, reaching
from archon_services.cli.target.run import RunArgument, find_run


def resume(run: RunArgument, orchestrator: OrchestratorOption = "") -> None:
    """Go on with a paused run; one that isn't paused stays as it is."""
    print(asyncio.run(_resume(find_orchestrator(orchestrator), run, reach_of(orchestrator))))


async def _resume(orchestrator: str, named: str, reach: str) -> str:
    from archon.client import Client
    from archon_services.cli.render.questions import asked_of

    with reaching("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            before = await client.get(await find_run(client, named))
            run = await client.resume(before.run_id)
    if not before.paused:
        return f"Run {run.run_id} isn't paused."
    if run.paused:
        return f"Run {run.run_id} is about to go on."
    if run.questions:
        first = asked_of(run.run_id, run.questions[0])
        return f"Run {run.run_id} goes on, and waits for a person: {first.command(reach)}"
    return f"Run {run.run_id} goes on."
