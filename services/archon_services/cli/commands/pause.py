"""`archon pause`: pauses a run."""

from __future__ import annotations

import asyncio

from archon_services.cli.options import OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id


def pause(run: RunArgument, orchestrator: OrchestratorOption = "") -> None:
    """Pause a run until `archon resume`.

    No further tasks are dispatched and the run's clock stops; tasks in progress continue. Has no effect on a paused
    run.
    """
    print(asyncio.run(_pause(find_orchestrator(orchestrator), run, orchestrator_flag(orchestrator))))


async def _pause(orchestrator: str, name: str, flag: str) -> str:
    async with orchestrator_client(orchestrator) as client:
        before = await client.get(await find_run_id(client, name))
        run = await client.pause(before.run_id)
    hint = f"Resume it with `archon resume {run.run_id[:12]}{flag}`."
    if before.paused:
        return f"Run {run.run_id} is already paused. {hint}"
    return f"Run {run.run_id} is {'paused' if run.paused else 'being paused'}. {hint}"
