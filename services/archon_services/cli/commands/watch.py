"""`archon watch`: follows a run that somebody submitted, to its end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import FAILED, OK, USAGE, CliError
from archon_services.cli.target.mesh import OrchestratorOption, Target, find_target, reach_of, reaching
from archon_services.cli.target.run import RunArgument, find_run

if TYPE_CHECKING:
    from archon.client import Client
    from archon_services.cli.render.run_screen import Screen

_PATIENCE: Final = 15.0  # for an orchestrator that is gone in the middle of a run


def watch(
    run: RunArgument,
    since: Annotated[
        int, typer.Option("--from", min=1, metavar="SEQ", help="The first event to be told; all by default.")
    ] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON, and nothing else.")
    ] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Follow a run to its end, from any of its events on.

    A live tree on a terminal, which always knows the whole run; else lines. Ctrl-C leaves the run alone.
    """
    raise typer.Exit(
        asyncio.run(_watch(find_target(orchestrator), run, since, reach_of(orchestrator), as_json=as_json))
    )


async def _watch(target: Target, named: str, since: int, reach: str, *, as_json: bool) -> int:
    from archon.api.common.v1 import common_pb2
    from archon.client import Client
    from archon_services.cli.render.memory_versions import memory_versions
    from archon_services.cli.render.summary import print_answer, print_summary

    with reaching("orchestrator", target.orchestrator):
        async with Client(target.orchestrator) as client:
            run_id = await find_run(client, named)
            known = (await client.get(run_id)).last_seq
            if since > known + 1:
                raise CliError(f"run {run_id} has {known} events, so there is none to tell from {since} on", code=USAGE)
            screen = _screen(since, reach, as_json=as_json)
            try:
                # A screen for people folds events, so that it needs those before `since` as well.
                await _follow(client, run_id, since - 1 if as_json else 0, screen)
            finally:
                screen.close()
            run = await client.get(run_id)
    if not as_json:
        print_answer(run)
        print_summary(run, await memory_versions(target.memory, run))
    return OK if run.state == common_pb2.TASK_STATE_COMPLETED else FAILED


async def _follow(client: Client, run_id: str, after_seq: int, screen: Screen) -> None:
    async with aclosing(client.watch(run_id, after_seq, patience=_PATIENCE)) as events:
        async for event in events:
            screen.event(event)


def _screen(since: int, reach: str, *, as_json: bool) -> Screen:
    from archon_services.cli.render.output import is_terminal
    from archon_services.cli.render.run_screen import JsonScreen, LineScreen, TreeScreen

    if as_json:
        return JsonScreen()
    return TreeScreen(reach) if is_terminal() else LineScreen(since, reach)
