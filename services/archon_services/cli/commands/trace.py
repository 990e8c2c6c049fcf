"""`archon trace`: shows where the time of a run went."""

from __future__ import annotations

import asyncio
import json
import os
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument, SaveOption
from archon_services.cli.render.output import console, is_terminal, save_text
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id, read_events

if TYPE_CHECKING:
    from archon_services.reports.waterfall.spans import Waterfall

MAX_CALLS: Final = 100_000
"""Records that are read; a run has fewer unless its agents flood it."""


class Format(StrEnum):
    """Output formats of the waterfall."""

    TEXT = "text"
    JSON = "json"
    SVG = "svg"


_BY_SUFFIX: Final = {".txt": Format.TEXT, ".json": Format.JSON, ".svg": Format.SVG}
_WIDTH: Final = 80
"""Columns without a terminal."""


def trace(
    run: RunArgument,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default the format of the suffix of --save, else text."),
    ] = None,
    as_json: JsonOption = False,
    save: SaveOption = None,
    width: Annotated[
        int, typer.Option("--width", min=0, metavar="COLUMNS", help="Columns of the text; by default the terminal's.")
    ] = 0,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show how the time of a run was spent: a bar for each attempt, call and delegation, and the critical path.

    Works for runs in progress, and needs no tracing backend: the times are from the run's events and records.
    """
    form = form or (Format.JSON if as_json else None) or _format_of(save)
    waterfall = asyncio.run(_read(find_orchestrator(orchestrator), run))
    if save is not None:
        save_text(save, _render(waterfall, form, width or _WIDTH))
    elif form is Format.TEXT:
        _print(waterfall, width)
    else:
        print(_render(waterfall, form, width), end="")


def _format_of(file: Path | None) -> Format:
    """The format of a file's suffix. Raises CliError for a suffix of another format."""
    if file is None:
        return Format.TEXT
    form = _BY_SUFFIX.get(file.suffix)
    if form is None:
        raise CliError(
            f"cannot write {file}: the suffix must be one of {', '.join(_BY_SUFFIX)}",
            hint="Name the format with --format.",
            code=USAGE,
        )
    return form


async def _read(orchestrator: str, name: str) -> Waterfall:
    from archon.run_view import RunView
    from archon_services.reports.waterfall.calls import Call, read_call
    from archon_services.reports.waterfall.summary import DELETED, view_of
    from archon_services.reports.waterfall.tree import waterfall

    async with orchestrator_client(orchestrator) as client:
        run = await client.get(await find_run_id(client, name))
        view, calls, notes = RunView(), list[Call](), list[str]()
        if await read_events(client, run, view.apply):
            async for record in client.records(run.run_id):
                if len(calls) >= MAX_CALLS:
                    notes.append(f"the run has more than {MAX_CALLS:,} call records; the others are missing")
                    break
                calls.append(read_call(record.proto))
        else:
            view, notes = view_of(run.proto), [DELETED]
    return waterfall(view, calls, time.time(), notes)


def _render(waterfall: Waterfall, form: Format, width: int) -> str:
    if form is Format.SVG:
        from archon_services.reports.waterfall.svg import waterfall_svg

        return waterfall_svg(waterfall)
    if form is Format.JSON:
        from archon_services.reports.waterfall.document import waterfall_document

        return json.dumps(waterfall_document(waterfall), indent=2, ensure_ascii=False) + "\n"
    from archon_services.reports.waterfall.text import plain, waterfall_lines

    return "\n".join(plain(line) for line in waterfall_lines(waterfall, width)) + "\n"


def _print(waterfall: Waterfall, width: int) -> None:
    from archon_services.reports.waterfall.text import waterfall_lines

    if not is_terminal():
        columns = os.environ.get("COLUMNS", "")
        print(_render(waterfall, Format.TEXT, width or int(columns if columns.isdecimal() else _WIDTH)), end="")
        return
    from rich.text import Text

    out = console()
    for line in waterfall_lines(waterfall, width or out.width):
        out.print(Text.assemble(*line), soft_wrap=True)
