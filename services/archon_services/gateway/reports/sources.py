"""The sources of an answer, back to the goal, and the reasons of the dispatches, as `archon provenance` and `archon
why` show them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from archon.errors import RunExpired
from archon.lineage import Provenance, RunProvenance
from archon_mesh.recorded import RecordedRun
from archon_services.gateway.reports.documents import document, drawing, wants_document
from archon_services.gateway.reports.reading import NO_RECORDS, RunReader
from archon_services.reports.provenance import provenance_document, provenance_rows, provenance_svg, unread_texts
from archon_services.reports.texts import one_line
from archon_services.reports.why import DispatchReport, why_document, why_lines

MAX_ROWS: Final = 2_000
MAX_ANSWERS: Final = 1_000
MAX_TASKS: Final = 200
"""Rows, answers to choose from, and tasks with dispatches that a document shows; JSON has all."""


class Sources:
    """The handlers of the sources of a run's answers."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    async def show(self, request: Request) -> Response:
        """Answers with a document or JSON about the answer of `task`: a role, a step or the id of a task; by default
        the last answer."""
        async with self._reader.turn(request):
            recorded = await self._reader.read(request.path_params["run_id"])
            read, dispatches = await asyncio.to_thread(_folded, recorded)
            name = request.query_params.get("task", "")
            found = await asyncio.to_thread(read.of, name) if name or read.answered() else None
            tasks = dispatches.tasks()
            if not wants_document(request):
                content = provenance_document(found, None) if found is not None else {"run_id": recorded.run.run_id}
                return JSONResponse(content | {"dispatches": [why_document(task) for task in tasks]})
            notes = [] if recorded.records_read else [NO_RECORDS]
            values = await asyncio.to_thread(_values, recorded.run.run_id, read, found)
            texts = ["\n".join(why_lines(task)) for task in tasks[:MAX_TASKS]]
            return await document(request, "sources.html", values | {"notes": notes, "dispatches": texts})

    async def draw(self, request: Request) -> Response:
        """Answers with the drawing of an answer's sources."""
        async with self._reader.turn(request):
            recorded = await self._reader.read(request.path_params["run_id"])
            read, _ = await asyncio.to_thread(_folded, recorded)
            found = await asyncio.to_thread(read.of, request.query_params.get("task", ""))
            return drawing(await asyncio.to_thread(provenance_svg, found))


def _folded(recorded: RecordedRun) -> tuple[RunProvenance, DispatchReport]:
    """Folds the events of a run. Raises RunExpired if they were removed."""
    if recorded.expired:
        raise RunExpired(f"the details of run {recorded.run.run_id} were removed by retention")
    read, dispatches = RunProvenance(), DispatchReport()
    for event in recorded.events:
        read.apply(event)
        dispatches.apply(event.proto)
    for record in recorded.records:
        read.add(record)
    return read, dispatches


def _values(run_id: str, read: RunProvenance, found: Provenance | None) -> dict[str, Any]:
    rows = list(provenance_rows(found)) if found is not None else []
    answers = [(task.task_id, one_line(_name(task.role, task.step_id), 80)) for task in read.answered()]
    return {
        "title": f"Sources of the answer of {one_line(found.answer.label, 60)}" if found is not None else "Sources",
        "run_id": run_id,
        "view": "sources",
        "answers": answers[:MAX_ANSWERS],
        "chosen": found.answer.task_id if found is not None else "",
        "rows": rows[:MAX_ROWS],
        "more": max(0, len(rows) - MAX_ROWS),
        "unread": unread_texts(found) if found is not None else [],
    }


def _name(role: str, step_id: str) -> str:
    return f"{step_id} ({role})" if step_id and role else step_id or role
