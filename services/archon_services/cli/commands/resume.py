"""`archon resume`: resumes a paused run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from archon_services.cli.errors import CliError
from archon_services.cli.options import OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon.types import Run


def resume(run: RunArgument, orchestrator: OrchestratorOption = "") -> None:
    """Resume a paused run. Has no effect on a run that is not paused."""
    print(asyncio.run(_resume(find_orchestrator(orchestrator), run, orchestrator_flag(orchestrator))))


async def _resume(orchestrator: str, name: str, flag: str) -> str:
    from archon_services.cli.render.questions import pending_question
    from archon_services.cli.render.rerun import rerun_hint

    async with orchestrator_client(orchestrator) as client:
        before = await client.get(await find_run_id(client, name))
        if before.state.final:
            raise CliError(_ended_text(before), hint=rerun_hint(before.proto, flag))
        run = await client.resume(before.run_id)
    if not before.paused:
        return f"Run {run.run_id} is not paused."
    if run.paused:
        return f"Run {run.run_id} is being resumed."
    if run.questions:
        question = pending_question(run.run_id, run.questions[0].proto)
        return f"Run {run.run_id} is resumed and waiting for input: {question.command(flag)}"
    return f"Run {run.run_id} is resumed."


def _ended_text(run: Run) -> str:
    failure = f": {run.failure.message}" if run.failure is not None and run.failure.message else ""
    return f"run {run.run_id} has ended: {run.state}{failure}"
