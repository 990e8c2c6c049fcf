"""The difference of two runs, side by side, as `archon diff` shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from archon.client import Client
from archon.errors import InvalidArgument, MessageTooLarge, UnknownRun
from archon.types import Run
from archon_mesh.recorded import RecordedRun
from archon_mesh.run_diff import RunDiff, TextChange, diff_runs
from archon_services.gateway.callers import Callers
from archon_services.gateway.reports.documents import document, wants_document
from archon_services.gateway.reports.reading import NO_RECORDS, RunReader
from archon_services.reports.run_diff import changed_fields, measures, outcomes, shortened, task_sides
from archon_services.reports.texts import local_time, one_line

RECENT: Final = 60
"""Newest runs among which forks are looked for."""

PARALLEL: Final = 8
"""Runs that are read at a time for their goals."""

OFFERED: Final = 20
"""Runs of one kind that are offered."""

MAX_CHANGES: Final = 200
"""Changed texts of one kind, and changed tasks, that a document shows; JSON has all."""

MAX_RECORDED: Final = 2_000_000
"""Characters of the recorded calls of a run that are compared."""

MAX_ID: Final = 64


class Difference:
    """The handler of differences."""

    def __init__(self, reader: RunReader, callers: Callers) -> None:
        self._reader, self._callers = reader, callers

    async def show(self, request: Request) -> Response:
        """Answers with the difference from the run `id`, or else `other`; without one, with a choice of runs. Programs
        get JSON as `archon diff --json` prints it. Raises InvalidArgument, UnknownRun."""
        run_id = request.path_params["run_id"]
        other = (request.query_params.get("id", "").strip() or request.query_params.get("other", "")).lower()
        if len(other) > MAX_ID:
            raise InvalidArgument("this is no id of a run")
        async with self._reader.turn(request):
            if not wants_document(request):
                if not other:
                    raise InvalidArgument("name the other run: ?other=RUN")
                found, notes = await self._compared(run_id, other)
                return JSONResponse(found.document() | {"notes": [*found.notes, *notes]})
            run = await self._callers.runs.get(run_id)
            values: dict[str, Any] = {
                "offered": await offered(self._callers.runs, run),
                "chosen": other,
                "found": None,
                "notes": [],
            }
            if other:
                found, notes = await self._compared(run_id, other)
                values |= await asyncio.to_thread(_values, found, notes)
            title = "The difference of two runs" if other else "The difference from another run"
            common = {"title": title, "run_id": run_id, "view": "difference"}
            return await document(request, "difference.html", common | values)

    async def _compared(self, run_id: str, other: str) -> tuple[RunDiff, list[str]]:
        """Returns the difference, the run to compare with first."""
        left, right = await self._reader.read(other), await self._reader.read(run_id)
        notes = [] if right.records_read else [NO_RECORDS]
        (first, left_cut), (second, right_cut) = _bounded(left), _bounded(right)
        if left_cut or right_cut:
            notes.append("Recorded calls beyond the first two million characters are not compared: `archon diff` does.")
        found = await asyncio.to_thread(diff_runs, first, second)
        await asyncio.to_thread(found.document)  # compares the texts, which are kept
        return found, notes


async def offered(runs: Client, run: Run) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Returns runs to compare with, by the reason, each with its id and a line about it."""
    reading = asyncio.Semaphore(PARALLEL)

    async def read(listed: Run) -> Run:
        async with reading:
            try:
                return await runs.get(listed.run_id)
            except (UnknownRun, MessageTooLarge):
                return listed

    async def read_all(listed: Sequence[Run]) -> list[Run]:
        return await asyncio.gather(*map(read, listed))

    newest = await read_all(await runs.list_runs(limit=RECENT, since=run.create_time))
    role = run.answers[-1].role if run.answers else run.tasks[-1].role if run.tasks else ""
    groups: dict[str, list[Run]] = {}
    if run.parent_run_id:
        with suppress(UnknownRun):  # retention may have removed it
            groups["The run that it was forked from"] = [await runs.get(run.parent_run_id)]
        groups["Later forks of that run"] = [each for each in newest if each.parent_run_id == run.parent_run_id]
    groups["Its forks"] = [each for each in newest if each.parent_run_id == run.run_id]
    if role:
        groups[f"The last runs of {one_line(role, 40)}"] = await read_all(
            await runs.list_runs(limit=OFFERED, text=role[:200])
        )
    shown = {run.run_id}
    offers: dict[str, list[tuple[str, str]]] = {}
    for reason, found in groups.items():
        kept = [each for each in found if each.run_id not in shown][:OFFERED]
        shown.update(each.run_id for each in kept)
        if kept:
            offers[reason] = [(each.run_id, _line(each)) for each in kept]
    return offers


def _line(run: Run) -> str:
    goal = one_line(" ".join(part.text or "" for part in run.goal), 50)
    return f"{run.run_id[:12]} {local_time(run.create_time)} {run.state} {goal}"


def _bounded(recorded: RecordedRun) -> tuple[RecordedRun, bool]:
    """Returns a run with as many of its recorded calls as are compared, and whether some are missing."""
    size = 0
    for number, record in enumerate(recorded.records):
        size += len(record.request_json) + len(record.response_json)
        if size > MAX_RECORDED:
            return replace(recorded, records=recorded.records[:number]), True
    return recorded, False


def _values(found: RunDiff, notes: Sequence[str]) -> dict[str, Any]:
    changed = [task for task in found.tasks if not task.same]
    return {
        "found": found,
        "notes": [*found.notes, *notes],
        "outcomes": outcomes(found),
        "fields": changed_fields(found),
        "tasks": [task_sides(task) for task in changed[:MAX_CHANGES]],
        "same_tasks": len(found.tasks) - len(changed),
        "more_tasks": max(0, len(changed) - MAX_CHANGES),
        "changes": [
            (name, [_shown(change) for change in changes[:MAX_CHANGES]], max(0, len(changes) - MAX_CHANGES))
            for name, changes in (("Answers", found.answers), ("Tool calls", found.tools), ("Prompts", found.prompts))
            if changes
        ],
        "measures": measures(found),
    }


def _shown(change: TextChange) -> TextChange:
    return replace(change, pieces=tuple(shortened(change.pieces)))
