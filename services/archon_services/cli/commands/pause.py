"""`archon pause`: nothing more of a run is given out."""

from __future__ import annotations

import asyncio

from archon_services.cli.target.mesh import OrchestratorOption, find_orchestrator, reach_of, reaching
from archon_services.cli.target.run import RunArgument, find_run


def pause(run: RunArgument, orchestrator: OrchestratorOption = "") -> None:
    """Pause a run until `archon resume`.

    Nothing more is given out and its clock stands; what is under way goes on. A run that is paused already stays as it
    is.
    """
    print(asyncio.run(_pause(find_orchestrator(orchestrator), run, reach_of(orchestrator))))


async def _pause(orchestrator: str, named: str, reach: str) -> str:
    from archon.client import Client

    with reaching("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            before = await client.get(await find_run(client, named))
            run = await client.pause(before.run_id)
    how = f"`archon resume {run.run_id[:12]}{reach}` lets it go on"
    if before.paused:
        return f"Run {run.run_id} is paused already; {how}."
    return f"Run {run.run_id} is {'paused' if run.paused else 'being paused'}; {how}."
