"""`archon runs`: lists runs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon.wire import parts_text, to_seconds
from archon_services.cli.options import JsonOption, OrchestratorOption, WatchOption
from archon_services.cli.render.output import age, one_line, print_json, print_table
from archon_services.cli.run_filter import RunFilter, StateName
from archon_services.cli.run_ids import short_length
from archon_services.cli.target.mesh import connecting, find_orchestrator
from archon_services.cli.watching import repeat

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client

AT_ONCE: Final = 16
"""Runs whose details are read at a time."""

GOAL_LENGTH: Final = 120
"""Characters of a goal that are shown."""

_HEADERS: Final = ("run", "state", "age", "strategy", "tokens", "roles", "goal")
_RIGHT: Final = (2, 4)
_FOLDED: Final = (5, 6)


def runs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="The number of runs at most.")] = 20,
    session: Annotated[str, typer.Option(metavar="ID", help="Only the runs of this session.")] = "",
    state: Annotated[
        list[StateName] | None,
        typer.Option(metavar="STATE", help=f"Only the runs in this state: {', '.join(StateName)}. May be repeated."),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only the runs submitted since then: 30m, 2h, 7d, or 2026-01-31T12:00.")
    ] = "",
    watch: WatchOption = False,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """List runs, the newest first."""
    wanted = RunFilter.of(limit=limit, session=session, states=state or (), since=since)
    address = find_orchestrator(orchestrator)

    def show() -> None:
        listed = asyncio.run(_list(address, wanted))
        if as_json:
            from google.protobuf import json_format

            print_json([json_format.MessageToDict(run, preserving_proto_field_name=True) for run in listed])
        elif not listed:
            print(f"There are no runs{wanted.text}.")
        else:
            length = short_length([run.run_id for run in listed])
            print_table(_HEADERS, [_row(run, length) for run in listed], right=_RIGHT, folded=_FOLDED)

    repeat(show, watch=watch)


async def _list(orchestrator: str, wanted: RunFilter) -> list[Run]:
    from archon.client import Client

    with connecting("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            listed = await wanted.list(client)
            slots = asyncio.Semaphore(AT_ONCE)
            detailed = await asyncio.gather(*(_details(client, run, slots) for run in listed))
    return [run for run in detailed if wanted.admits(run)][: wanted.limit]


async def _details(client: Client, run: Run, slots: asyncio.Semaphore) -> Run:
    """Returns the run with its goal, tasks and usage; as it was listed, if it cannot be read."""
    from archon.errors import ArchonError, DeadlineExceeded, Unavailable

    async with slots:
        try:
            return (await client.get(run.run_id)).proto
        except (Unavailable, DeadlineExceeded):
            raise
        except ArchonError:
            return run


def _row(run: Run, id_length: int) -> tuple[str, ...]:
    from archon.run_view.convert import strategy_name
    from archon_services.cli.render.run_summary import token_count
    from archon_services.cli.render.state_names import run_state_name

    roles = dict.fromkeys(task.role for task in run.tasks)
    usage = run.usage
    return (
        run.run_id[:id_length],
        run_state_name(run),
        age(time.time() - to_seconds(run.create_time)),
        strategy_name(run.strategy) or "-",
        token_count(usage.input_tokens + usage.output_tokens, usage),
        ", ".join(roles) or "-",
        one_line(parts_text(run.goal), GOAL_LENGTH) or "-",
    )
