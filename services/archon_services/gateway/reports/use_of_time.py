"""Where the time of a run went, and its critical path, as `archon trace` shows them."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from archon.plain_text import duration
from archon.run_view import RunView
from archon_mesh.recorded import RecordedRun
from archon_services.gateway.reports.documents import document, drawing, wants_document
from archon_services.gateway.reports.reading import NO_RECORDS, RunReader
from archon_services.reports.texts import cost_text, one_line
from archon_services.reports.waterfall.calls import read_call
from archon_services.reports.waterfall.document import waterfall_document
from archon_services.reports.waterfall.spans import Waterfall
from archon_services.reports.waterfall.summary import DELETED, view_of
from archon_services.reports.waterfall.svg import waterfall_svg
from archon_services.reports.waterfall.totals import totals
from archon_services.reports.waterfall.tree import waterfall

MAX_STEPS: Final = 500
"""Steps of the critical path that a document shows; JSON has all."""


class UseOfTime:
    """The handlers of a run's use of time."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    async def show(self, request: Request) -> Response:
        """Answers with a document, or with JSON as `archon trace --json` prints it."""
        async with self._reader.turn(request):
            made = await self._made(request)
            if not wants_document(request):
                return JSONResponse(await asyncio.to_thread(waterfall_document, made))
            return await document(request, "time.html", await asyncio.to_thread(_values, made))

    async def draw(self, request: Request) -> Response:
        """Answers with the drawing."""
        async with self._reader.turn(request):
            return drawing(await asyncio.to_thread(waterfall_svg, await self._made(request)))

    async def _made(self, request: Request) -> Waterfall:
        recorded = await self._reader.read(request.path_params["run_id"])
        return await asyncio.to_thread(_waterfall, recorded)


def _waterfall(recorded: RecordedRun) -> Waterfall:
    if recorded.expired:
        return waterfall(view_of(recorded.run.proto), [], time.time(), [DELETED])
    view = RunView()
    for event in recorded.events:
        view.apply(event)
    notes = [] if recorded.records_read else [NO_RECORDS]
    return waterfall(view, [read_call(record.proto) for record in recorded.records], time.time(), notes)


def _values(made: Waterfall) -> dict[str, Any]:
    root = made.root
    steps = [
        (step.start - root.start, step.seconds, step.kind.value, step.span.name, step.span.task_id)
        for step in made.path
    ]
    return {
        "title": f"The time of run {one_line(made.run_id, 40)}",
        "run_id": made.run_id,
        "view": "time",
        "state": root.status,
        "whole": duration(root.seconds),
        "cost": cost_text(root.spent.cost_micro_usd),
        "notes": made.notes,
        "totals": [total for total in totals(made) if total.summed or total.critical],
        "path": steps[:MAX_STEPS],
        "more": max(0, len(steps) - MAX_STEPS),
    }
