"""`archon prompts`: prints the model calls of a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument, SaveOption
from archon_services.cli.target.mesh import connecting, find_orchestrator
from archon_services.cli.target.run import find_run_id, read_events

if TYPE_CHECKING:
    from archon.api.orchestrator.v1 import run_pb2
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client
    from archon.types import RunEvent
    from archon_services.cli.render.prompt_output import PromptOutput
    from archon_services.cli.render.prompt_sections import Expected


def prompts(
    run: RunArgument,
    role: Annotated[str, typer.Option(metavar="ROLE", help="Only the model calls of this role.")] = "",
    text: Annotated[bool, typer.Option("--text/--no-text", help="Also print the texts of the messages.")] = True,
    window: Annotated[
        int,
        typer.Option(
            "--window", min=0, metavar="TOKENS", help="The models' context window; by default as it is known."
        ),
    ] = 0,
    as_json: JsonOption = False,
    save: SaveOption = None,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Print the model calls of a run so far, message by message: its origin and its tokens."""
    from archon_services.cli.render.prompt_output import JsonOutput, TextOutput

    output = JsonOutput(save) if as_json else TextOutput(save, with_text=text)
    asyncio.run(_report(find_orchestrator(orchestrator), run, role, window, output))


async def _report(orchestrator: str, name: str, role: str, window: int, output: PromptOutput) -> None:
    from archon.client import Client
    from archon_mesh.llm.prices import find_window
    from archon_services.cli.render.prompt_report import recorded_text
    from archon_services.cli.render.prompt_sections import read_prompt

    recorded = 0
    with connecting("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            run = (await client.get(await find_run_id(client, name))).proto
            expected = await _expected(client, run)
            async for record in client.records(run.run_id, role=role):
                if record.kind != "model":
                    continue
                recorded += 1
                attempt = record.task.task_id, record.task.attempt
                prompt = read_prompt(record.proto, window or find_window(record.target), expected.get(attempt))
                output.call(record.proto, prompt)
    ended = run.HasField("end_time")
    output.end(recorded_text(recorded, run.usage.model_calls, role, ended=ended))


async def _expected(client: Client, run: Run) -> dict[tuple[str, int], Expected]:
    """Returns the expected content of the prompts of the run's attempts; empty if its events have been deleted."""
    from archon_services.cli.render.prompt_sections import expectations

    dispatched: list[run_pb2.RunEvent] = []

    def keep(event: RunEvent) -> None:
        if event.type == "dispatched":
            dispatched.append(event.proto)

    return expectations(run, dispatched) if await read_events(client, run, keep) else {}
