"""`archon show`: one run as it stands."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.target.mesh import JsonOption, OrchestratorOption, Target, find_target, reach_of, reaching
from archon_services.cli.target.run import RunArgument, find_run

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client
    from archon_services.cli.render.run_view import RunView

_PATIENCE: Final = 10.0


def show(
    run: RunArgument,
    answer: Annotated[bool, typer.Option("--answer/--no-answer", help="Print what it came to, too.")] = True,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show a run as it stands, with its tasks and its answer."""
    from archon_services.cli.render.output import print_json
    from archon_services.cli.render.summary import print_answer

    found, view = asyncio.run(_get(find_target(orchestrator), run))
    if not answer:
        found.ClearField("answers")
    if as_json:
        from google.protobuf import json_format

        print_json(json_format.MessageToDict(found, preserving_proto_field_name=True))
        return
    _print(found, view, reach_of(orchestrator))
    if found.answers:
        print()
        print_answer(found)


async def _get(target: Target, named: str) -> tuple[Run, RunView]:
    from archon.client import Client
    from archon_services.cli.render.memory_versions import memory_versions, version_of

    with reaching("orchestrator", target.orchestrator):
        async with Client(target.orchestrator) as client:
            run = await client.get(await find_run(client, named))
            view = await _events(client, run)
    # The last answers are published when the run has ended, so that the memory knows more than the run does.
    versions = await memory_versions(target.memory, run)
    for task in run.tasks:
        task.memory_version = version_of(run, task, versions)
    return run, view


async def _events(client: Client, run: Run) -> RunView:
    """What the run's events say up to where it stands; nothing where they are gone after retention."""
    from archon.api.orchestrator.v1 import run_pb2
    from archon.errors import RunExpired
    from archon_services.cli.render.run_view import RunView

    view = RunView()
    telling = not run.HasField("end_time") or run.strategy == run_pb2.STRATEGY_AGENT
    if not telling and not any(task.parent_task_id or task.attempt > 1 for task in run.tasks):
        return view  # the run itself says all there is to say
    try:
        async with (
            asyncio.timeout(_PATIENCE),
            aclosing(client.watch(run.run_id, durable_only=True, patience=_PATIENCE)) as events,
        ):
            async for event in events:
                view.apply(event)
                if event.seq >= run.last_seq:
                    break
    except (RunExpired, TimeoutError):
        return RunView()
    return view


def _print(run: Run, view: RunView, reach: str) -> None:
    from archon_services.cli.render.output import console, harmless, is_terminal, style_of
    from archon_services.cli.render.show_view import run_lines

    lines = run_lines(run, time.time(), view, reach)
    if not is_terminal():
        for text, _ in lines:
            print(text)
        return
    from rich.text import Text

    out = console()
    for text, state in lines:
        out.print(Text(harmless(text), style=style_of(state)), soft_wrap=True)
