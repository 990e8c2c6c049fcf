"""`archon watch`: follows a run to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import FAILED, OK, USAGE, CliError
from archon_services.cli.options import JsonEventsOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import is_terminal
from archon_services.cli.target.mesh import Target, find_target, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon_services.cli.render.run_screen import Screen


def watch(
    run: RunArgument,
    since: Annotated[
        int,
        typer.Option("--from", min=1, metavar="SEQ", help="The sequence number of the first event."),
    ] = 1,
    as_json: JsonEventsOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Follow a run to its end.

    Shows a live tree of the whole run on a terminal, else a line per event. Ctrl-C detaches and leaves the run
    unchanged.
    """
    raise typer.Exit(
        asyncio.run(_watch(find_target(orchestrator), run, since, orchestrator_flag(orchestrator), as_json=as_json))
    )


async def _watch(target: Target, name: str, since: int, flag: str, *, as_json: bool) -> int:
    from archon.types import TaskState
    from archon_services.cli.follow_run import follow
    from archon_services.cli.render.run_summary import print_answer, print_summary
    from archon_services.cli.target.memory_versions import memory_versions
    from archon_services.cli.waits import explained

    async with orchestrator_client(target.orchestrator) as client:
        run_id = await find_run_id(client, name)
        last_seq = (await client.get(run_id)).last_seq
        if since > last_seq + 1:
            raise CliError(f"--from {since} is past the last event of run {run_id}, {last_seq}", code=USAGE)
        screen = _screen(since, flag, as_json=as_json)
        try:
            # The tree and the lines fold events, so they need those before `since` as well.
            async with explained(client, run_id, screen):
                await follow(client, run_id, screen, after_seq=since - 1 if as_json else 0)
        finally:
            screen.close()
        run = await client.get(run_id)
    if not as_json:
        print_answer(run.proto)
        print_summary(run.proto, await memory_versions(target.memory, run.proto), flag)
    return OK if run.state is TaskState.COMPLETED else FAILED


def _screen(since: int, flag: str, *, as_json: bool) -> Screen:
    from archon_services.cli.render.run_screen import JsonScreen, LineScreen, TreeScreen

    if as_json:
        return JsonScreen()
    return TreeScreen(flag) if is_terminal() else LineScreen(since, flag)
