"""`archon prompts`: prints the model calls of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument, SaveOption
from archon_services.cli.target.mesh import connecting, find_orchestrator
from archon_services.cli.target.run import find_run_id, read_events

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run, RunEvent, RunRecord
    from archon_services.cli.render.prompt_sections import Prompt


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
    """Print the model calls of a run, message by message: what each message is, and its tokens."""
    from archon_services.cli.render.output import print_json, save_text
    from archon_services.cli.render.prompt_report import record_document

    calls, note = asyncio.run(_calls(find_orchestrator(orchestrator), run, role, window))
    documents = [record_document(record, prompt) for record, prompt in calls] if as_json else []
    if save is not None:
        report = (
            json.dumps(documents, indent=2, ensure_ascii=False)
            if as_json
            else "\n".join(line for line, _ in _lines(calls, note, text=text))
        )
        save_text(save, report + "\n")
    elif as_json:
        print_json(documents)
    else:
        _print(_lines(calls, note, text=text))


async def _calls(orchestrator: str, name: str, role: str, window: int) -> tuple[list[tuple[RunRecord, Prompt]], str]:
    """Returns the model calls of a run with their prompts, and what to say about those that are not recorded."""
    from archon.client import Client
    from archon_mesh.llm.prices import find_window
    from archon_services.cli.render.prompt_report import recorded_text
    from archon_services.cli.render.prompt_sections import expectations, read_prompt

    with connecting("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            run: Run = await client.get(await find_run_id(client, name))
            records = [record async for record in client.records(run.run_id, role=role) if record.kind == "model"]
            dispatched: list[RunEvent] = []

            def keep(event: RunEvent) -> None:
                if event.WhichOneof("event") == "dispatched":
                    dispatched.append(event)

            if records:
                await read_events(client, run, keep)
    expected = expectations(run, dispatched)
    calls = []
    for record in records:
        attempt = record.task.task_id, record.task.attempt
        prompt = read_prompt(record, window or find_window(record.target), expected.get(attempt))
        calls.append((record, prompt))
    return calls, recorded_text(len(records), run.usage.model_calls, role)


def _lines(calls: list[tuple[RunRecord, Prompt]], note: str, *, text: bool) -> Iterator[tuple[str, str]]:
    from archon_services.cli.render.prompt_report import record_lines

    for record, prompt in calls:
        yield from record_lines(record, prompt, with_text=text)
    if note:
        yield note, ""


def _print(lines: Iterator[tuple[str, str]]) -> None:
    from rich.text import Text

    from archon_services.cli.render.output import console, is_terminal, strip_controls

    out = console() if is_terminal() else None
    for text, style in lines:
        if out is None:
            print(text)
        else:
            out.print(Text(strip_controls(text), style=style), soft_wrap=True)
