"""Checks, while a plan is being executed, whether it still leads to what its query asks for.

A check is asked after a subtask has completed, beside everything else: subtasks start and end meanwhile. Whatever goes
wrong with a check, the plan counts as aligned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.core.plan import Task
from archon_mesh.core.plan.alignment import alignment_messages, is_left_to_begin, read_misalignment
from archon_mesh.llm import deadline
from archon_mesh.llm.base import ModelClient, ModelRequest
from archon_mesh.llm.text_format import ParsingError, extract_json_from_text

ALIGNMENT_TIMEOUT: Final = 60.0
"""Seconds of a check; then the plan counts as aligned."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The outcome of a check: why the plan does not serve its query any more, or an empty text if it does."""

    problem: str = ""


AlignmentCheck = Callable[[Task], Awaitable[Alignment]]
"""Checks whether a plan, with its results so far, still leads to what `original_query` asks for."""


def align_by_model(model: ModelClient) -> AlignmentCheck:
    """Returns a check by a model. After a reply that cannot be read, or a call that fails, which is logged, the plan
    counts as aligned."""

    async def check(task: Task) -> Alignment:
        messages = tuple(alignment_messages(task))
        request = ModelRequest(
            messages, temperature=0.0, timeout=ALIGNMENT_TIMEOUT, idle_timeout=ALIGNMENT_TIMEOUT, is_json=True
        )
        try:
            verdict = extract_json_from_text((await deadline.generate(model, request)).text)
        except ParsingError:
            return Alignment()
        except Exception as error:  # noqa: BLE001 - whatever a model raises, the plan goes on
            _log.warning("task %s: the model did not say whether the plan serves the query: %s", task.id, error)
            return Alignment()
        return Alignment(read_misalignment(verdict))

    return check


class AlignmentChecks:
    """The checks of one plan's execution: one at a time, and at most `limit`; none without a `check`. Subtasks that
    complete during a check are covered by one further check."""

    def __init__(self, check: AlignmentCheck | None, limit: int, *, timeout: float = ALIGNMENT_TIMEOUT) -> None:
        self._check = check
        self._left = limit
        self._timeout = timeout
        self._is_due = False
        self._abandoned: set[asyncio.Task[str]] = set()
        self.running: asyncio.Task[str] | None = None
        """The check in progress; it returns why the plan does not serve the query, or an empty text."""

    def completed(self) -> None:
        """Notes that a subtask has completed since the last check began."""
        self._is_due = True

    def start(self, task: Task) -> None:
        """Begins a check if one is due and may be made: none is in progress, and subtasks have not begun."""
        if self._check is None or self._left <= 0 or not self._is_due or self.running is not None:
            return
        if is_left_to_begin(task):
            self._is_due = False
            self._left -= 1
            self.running = asyncio.create_task(self._problem(self._check, task), name="alignment check")

    def take(self) -> str:
        """Returns the problem that the check in progress has found, if it has ended with one; else an empty text."""
        if self.running is None or not self.running.done():
            return ""
        ended, self.running = self.running, None
        return "" if ended.cancelled() else ended.result()

    def abandon(self) -> None:
        """Cancels the check in progress, and forgets what has completed: another plan is in force."""
        self._is_due = False
        if self.running is not None:
            self.running.cancel()
            self._abandoned.add(self.running)
            self.running.add_done_callback(self._abandoned.discard)
            self.running = None

    @property
    def tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """The checks that have not ended, with those that were cancelled."""
        return (*self._abandoned, *((self.running,) if self.running is not None else ()))

    async def _problem(self, check: AlignmentCheck, task: Task) -> str:
        try:
            async with asyncio.timeout(self._timeout):
                return (await check(task)).problem.strip()
        except Exception as error:  # noqa: BLE001 - a check that fails must not fail the plan
            _log.warning("task %s: the check of the plan's alignment failed: %r", task.id, error)
            return ""
