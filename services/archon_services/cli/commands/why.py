"""`archon why`: says why each attempt of a run went to its instance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import NOT_FOUND, CliError
from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import print_json
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import details_removed, find_run_id, read_events
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon_services.reports.why import DispatchReport


def why(
    run: RunArgument,
    step: Annotated[
        str, typer.Argument(metavar="[STEP]", help="A step, a role or the id of a task; by default all tasks.")
    ] = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Say why each attempt of a run went to its instance: which instances were compared by load and record, why it was
    made again, and which rule of the plan took part."""
    from archon.hooks import DELIVERY_KEY, HOOK_KEY
    from archon.schedules import FIRE_KEY, SCHEDULE_KEY
    from archon_services.reports.why import why_document, why_lines

    report, metadata = asyncio.run(_read(find_orchestrator(orchestrator), run))
    tasks = report.tasks(step)
    if step and not tasks:
        known = ", ".join(report.names()[:20]) or "none"
        raise CliError(f"the run has no step, role or task {step!r}", hint=f"It has {known}.", code=NOT_FOUND)
    if as_json:
        print_json([why_document(task) for task in tasks])
        return
    if (name := metadata.get(SCHEDULE_KEY)) is not None:
        fire = strip_controls(metadata.get(FIRE_KEY, ""))
        print(f"Submitted by the schedule {strip_controls(name)}, for {fire}.\n")
    if (name := metadata.get(HOOK_KEY)) is not None:
        delivery = strip_controls(metadata.get(DELIVERY_KEY, ""))
        print(f"Submitted by the hook {strip_controls(name)}, for the delivery {delivery}.\n")
    if not tasks:
        print("No task has been dispatched yet.")
    else:
        print("\n\n".join("\n".join(map(strip_controls, why_lines(task))) for task in tasks))


async def _read(orchestrator: str, name: str) -> tuple[DispatchReport, Mapping[str, str]]:
    from archon_services.reports.why import DispatchReport

    report = DispatchReport()
    async with orchestrator_client(orchestrator) as client:
        run = await client.get(await find_run_id(client, name))
        if not await read_events(client, run, lambda event: report.apply(event.proto)):
            raise details_removed(run.run_id)
    return report, run.metadata
