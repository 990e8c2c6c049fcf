"""`archon provenance`: shows the sources of an answer of a run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.drawing_format import Format, format_of
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import save_text
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import details_removed, find_run_id, read_events

if TYPE_CHECKING:
    from archon.lineage import Provenance, QuotedSource, RunProvenance


def provenance(
    run: RunArgument,
    step: Annotated[
        str, typer.Argument(metavar="[STEP]", help="A step, a role or the id of a task; by default the last answer.")
    ] = "",
    text: Annotated[
        str,
        typer.Option("--text", metavar="QUOTE", help="Only the sources with this text of the answer, or its numbers."),
    ] = "",
    form: Annotated[
        Format | None,
        typer.Option("--format", help="text, json or svg; by default that of the suffix of --output, else text."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show the sources of an answer of a run, back to the goal: answers, messages, memory, calls, people.

    \b
    archon provenance last
    archon provenance last writer --text "32 of 338 orders failed"
    archon provenance last --output answer.svg

    Names the answers that were delivered to an agent and not used, if the agent says which ones it used. Calls are
    there if they were recorded.
    """
    form = Format.JSON if as_json else form or format_of(output)
    if form in (Format.MERMAID, Format.DOT):
        raise CliError(f"there is no {form} of a provenance: use text, json or svg", code=USAGE)
    if text and form is Format.SVG:
        raise CliError("--text narrows the text and the JSON, not the drawing", code=USAGE)
    read = asyncio.run(_read(find_orchestrator(orchestrator), run))
    found, quoted = _found(read, step, text)
    rendered = _rendered(found, quoted, form)
    if output is None:
        print(rendered, end="")
    else:
        save_text(output, rendered)


def _found(read: RunProvenance, step: str, text: str) -> tuple[Provenance, list[QuotedSource] | None]:
    from archon.errors import InvalidArgument

    try:
        found = read.of(step)
        return found, found.quoted(text) if text else None
    except InvalidArgument as error:
        names = dict.fromkeys(task.step_id or task.role for task in read.answered())
        hint = f"Answers: {', '.join([*names][:20])}." if names else ""
        raise CliError(error.message, hint=hint, code=NOT_FOUND) from error


def _rendered(found: Provenance, quoted: list[QuotedSource] | None, form: Format) -> str:
    from archon_services.reports.provenance import (
        provenance_document,
        provenance_lines,
        provenance_svg,
        quoted_lines,
    )

    if form is Format.JSON:
        return json.dumps(provenance_document(found, quoted), indent=2, ensure_ascii=False) + "\n"
    if form is Format.SVG:
        return provenance_svg(found)
    lines = provenance_lines(found) if quoted is None else quoted_lines(found, quoted)
    return "".join(f"{line}\n" for line in lines)


async def _read(orchestrator: str, name: str) -> RunProvenance:
    from archon.lineage import RunProvenance

    read = RunProvenance()
    async with orchestrator_client(orchestrator) as client:
        run = await client.get(await find_run_id(client, name))
        if not await read_events(client, run, read.apply):
            raise details_removed(run.run_id)
        async for record in client.records(run.run_id):
            read.add(record)
    return read
