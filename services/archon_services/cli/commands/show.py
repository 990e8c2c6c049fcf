"""`archon show`: prints a run with its tasks and answers."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import CliError
from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import print_json, print_states
from archon_services.cli.target.mesh import Target, find_target, orchestrator_client, orchestrator_flag
from archon_services.cli.target.run import find_run_id, read_events
from archon_services.cli.wrapping import wrapped

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client
    from archon.run_view import RunView
    from archon_services.cli.render.run_report import Calls

MAX_CALLS: Final = 10_000
"""Records that are read of a run in progress."""

_GUIDES: Final = re.compile(r"[│├└─ ]*")
"""The lines of a tree of tasks, in front of a task."""


def show(
    run: RunArgument,
    answer: Annotated[bool, typer.Option("--answer/--no-answer", help="Also print the answer.")] = True,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show the current state of a run, its tasks and its answer."""
    from archon_services.cli.render.run_summary import print_answer

    shown, view, calls = asyncio.run(_get(find_target(orchestrator), run))
    if not answer:
        shown.ClearField("answers")
    if as_json:
        from google.protobuf import json_format

        print_json(json_format.MessageToDict(shown, preserving_proto_field_name=True))
        return
    _print(shown, view, calls, orchestrator_flag(orchestrator))
    if shown.answers:
        print()
        print_answer(shown)


async def _get(target: Target, name: str) -> tuple[Run, RunView, dict[tuple[str, int], Calls]]:
    from archon_services.cli.render.run_summary import version_of
    from archon_services.cli.target.memory_versions import memory_versions

    async with orchestrator_client(target.orchestrator) as client:
        run = (await client.get(await find_run_id(client, name))).proto
        view = await _view(client, run)
        calls = await _read_calls(client, run, view)
    # The last answers are published after the end of the run, so the run does not have their versions.
    versions = await memory_versions(target.memory, run)
    for task in run.tasks:
        task.memory_version = version_of(run, task, versions)
    return run, view, calls


async def _view(client: Client, run: Run) -> RunView:
    """Folds the events of the run so far. Returns an empty view if they have expired, or add nothing to the run."""
    from archon.api.orchestrator.v1 import run_pb2
    from archon.run_view import RunView

    view = RunView()
    informative = not run.HasField("end_time") or run.strategy in (run_pb2.STRATEGY_AGENT, run_pb2.STRATEGY_PLAN)
    if not informative and not any(task.parent_task_id or task.attempt > 1 for task in run.tasks):
        return view
    try:
        return view if await read_events(client, run, view.apply) else RunView()
    except CliError:  # the run itself is known
        return RunView()


async def _read_calls(client: Client, run: Run, view: RunView) -> dict[tuple[str, int], Calls]:
    """Returns the calls so far of the attempts in progress, by task id and number."""
    from archon_services.cli.render.run_report import Calls

    open_tasks = (task for task in run.tasks if task.task_id in view.tasks and not view.tasks[task.task_id].final)
    working = {(task.task_id, task.attempt): Calls() for task in open_tasks}
    if run.HasField("end_time") or not working:
        return {}
    read = 0
    async for record in client.records(run.run_id):
        read += 1
        if (calls := working.get((record.task.task_id, record.task.attempt))) is not None:
            calls.add(record.proto)
        if read == MAX_CALLS:
            break
    return working


def _print(run: Run, view: RunView, calls: dict[tuple[str, int], Calls], flag: str) -> None:
    from archon_services.cli.render.run_report import run_report

    def folded(line: str) -> str:
        guides = (_GUIDES.match(line) or [""])[0].replace("├──", "│  ").replace("└──", "   ")
        return wrapped(line, hang=f"{guides}  ")

    print_states(run_report(run, time.time(), view, flag, calls), folded)
