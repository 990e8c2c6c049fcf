"""`archon prompts`: prints the model calls of a run."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archon.wire import to_seconds
from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import connecting, find_orchestrator
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import RunRecord


def prompts(
    run: RunArgument,
    role: Annotated[str, typer.Option(metavar="ROLE", help="Only the model calls of this role.")] = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Print the model calls of a run, message by message."""
    from archon_services.cli.render.output import print_json

    records = asyncio.run(_records(find_orchestrator(orchestrator), run, role))
    if as_json:
        print_json([_as_json(record) for record in records])
        return
    if not records:
        print(f"No model calls {f'by {role} ' if role else ''}are recorded for this run.")
    for record in records:
        _print(record)


async def _records(orchestrator: str, run: str, role: str) -> list[RunRecord]:
    from archon.client import Client

    with connecting("orchestrator", orchestrator):
        async with Client(orchestrator) as client:
            run_id = await find_run_id(client, run)
            return [record async for record in client.records(run_id, role=role) if record.kind == "model"]


def _as_json(record: RunRecord) -> dict[str, Any]:
    return {
        "run_id": record.task.run_id,
        "task_id": record.task.task_id,
        "attempt": record.task.attempt,
        "role": record.role,
        "ordinal": record.ordinal,
        "model": record.target,
        "seconds": to_seconds(record.duration),
        "input_tokens": record.usage.input_tokens,
        "output_tokens": record.usage.output_tokens,
        "cost_micro_usd": record.usage.cost_micro_usd,
        "estimated": record.usage.estimated,
        "request": json.loads(record.request_json or "null"),
        "response": json.loads(record.response_json or "null"),
    }


def _print(record: RunRecord) -> None:
    from rich.text import Text

    from archon_services.cli.render.output import console, is_terminal, strip_controls
    from archon_services.cli.render.prompt_report import record_lines

    out = console() if is_terminal() else None
    for text, style in record_lines(record):
        if out is None:
            print(text)
        else:
            out.print(Text(strip_controls(text), style=style), soft_wrap=True)
