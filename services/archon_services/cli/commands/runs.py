"""`archon runs`: lists runs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from archon.wire import to_seconds
from archon_services.cli.options import JsonOption, OrchestratorOption
from archon_services.cli.target.mesh import connecting, find_orchestrator

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run


def runs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="The number of runs at most.")] = 20,
    session: Annotated[str, typer.Option(metavar="ID", help="Only the runs of this session.")] = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """List runs, the newest first."""
    from archon_services.cli.render.output import print_json, print_table

    listed = asyncio.run(_list(find_orchestrator(orchestrator), limit, session))
    if as_json:
        from google.protobuf import json_format

        print_json([json_format.MessageToDict(run, preserving_proto_field_name=True) for run in listed])
    elif not listed:
        print("There are no runs." if not session else f"There are no runs in session {session}.")
    else:
        print_table(("run", "state", "submitted", "time", "session"), [_row(run) for run in listed], right=(3,))


async def _list(orchestrator: str, limit: int, session: str) -> list[Run]:
    from archon.client import Client

    with connecting("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            return await client.list_runs(limit=limit, session_id=session)


def _row(run: Run) -> tuple[str, ...]:
    from archon_services.cli.render.output import duration, local_time
    from archon_services.cli.render.run_view import state_name

    began = to_seconds(run.create_time)
    ended = to_seconds(run.end_time) if run.HasField("end_time") else time.time()
    return (
        run.run_id,
        state_name(run.state),
        local_time(began),
        duration(max(0.0, ended - began)),
        run.session_id or "-",
    )
