"""Lists the open questions of all runs, whichever replica owns them."""

from __future__ import annotations

from typing import Final

from archon import context
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss, UnknownRun
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.convert.run_view import write_question
from archon_services.orchestrator.journal import Journal, RunRow
from archon_services.orchestrator.runs.manager import Runs

MAX_PAGE_BYTES: Final = 3 * 1024 * 1024
"""Size of the questions of a page, above which it ends."""

_ROWS: Final = 100
"""Runs that are read at a time."""


class OpenQuestions:
    """The questions of the runs of the caller's tenant. A run with an open question has the state INPUT_REQUIRED, so
    that no other run is loaded."""

    def __init__(self, runs: Runs, journal: Journal) -> None:
        self._runs = runs
        self._journal = journal

    async def page(self, before: tuple[float, str] | None, size: int) -> tuple[list[run_pb2.Question], RunRow | None]:
        """Returns the questions of the runs after `before` (created_at, run_id), newest run first, until there are
        `size` of them; and the last of these runs, None if there is no further page. Raises Unavailable."""
        questions: list[run_pb2.Question] = []
        total, tenant = 0, context.current().tenant
        while True:
            rows = await self._journal.runs(
                tenant=tenant, states=[TaskState.INPUT_REQUIRED], before=before, limit=_ROWS + 1
            )
            for index, row in enumerate(rows[:_ROWS]):
                before = (row.created_at, row.run_id)
                asked = await self._of_run(row)
                questions += asked
                total += sum(question.ByteSize() for question in asked)
                if (len(questions) >= size or total >= MAX_PAGE_BYTES) and index + 1 < len(rows):
                    return questions, row
            if len(rows) <= _ROWS:
                return questions, None

    async def _of_run(self, row: RunRow) -> list[run_pb2.Question]:
        """The open questions of a run; none of one that cannot be read, which its own calls report."""
        try:
            state = self._runs.held(row.run_id) or await self._runs.state(row.run_id)
        except (DataLoss, UnknownRun):
            return []
        questions = []
        for task in state.tasks.values():
            if task.question and state.ending is None and not state.ended:
                question = run_pb2.Question()
                write_question(state, task, question)
                questions.append(question)
        return questions
