"""A run with its events and the recorded calls of its agents, read from a mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from archon.client import Client, answer_text
from archon.errors import DeadlineExceeded, RunExpired
from archon.types import Run, RunEvent, RunRecord

PATIENCE: Final = 10.0
"""Seconds without a further event after which reading a run fails."""


@dataclass(frozen=True)
class RecordedRun:
    """A run, its durable events in order, and the recorded calls of models and tools; without events if they have been
    deleted (`expired`), without records if its agents keep none."""

    run: Run
    events: Sequence[RunEvent] = ()
    records: Sequence[RunRecord] = ()
    expired: bool = False
    records_read: bool = True
    """Whether the records were asked for."""

    @cached_property
    def answer(self) -> str:
        """The text of the final answers; empty if there is none."""
        return answer_text(self.run) if self.run.answers else ""

    @property
    def cost_usd(self) -> float:
        """The run's cost in US dollars."""
        return self.run.usage.cost_micro_usd / 1e6

    @property
    def tokens(self) -> int:
        """The tokens that its models have read and written."""
        return self.run.usage.input_tokens + self.run.usage.output_tokens

    @property
    def seconds(self) -> float:
        """The time from the submit to the end, or to the last event of a run that goes on."""
        ended = self.run.end_time or (self.events[-1].time if self.events else self.run.create_time)
        return max(0.0, ended - self.run.create_time)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that executed tasks or whose answers were reused, in the order of their first task."""
        worked = (task.role for task in self.run.tasks if task.attempt or task.result_seq)
        return tuple(dict.fromkeys(role for role in worked if role))


async def fetch_run(client: Client, run_id: str, *, events: bool = True, records: bool = True) -> RecordedRun:
    """Reads a run up to its present state, with its events and records unless they are not wanted, or were removed.

    Raises UnknownRun, DeadlineExceeded if no event comes for PATIENCE seconds, and the errors of calls.
    """
    run = await client.get(run_id)
    history, expired = await _events(client, run) if events else ([], False)
    calls: list[RunRecord] = []
    try:
        if records and not expired:
            calls = [record async for record in client.records(run_id)]
    except RunExpired:  # removed in the meantime
        history, calls, expired = [], [], True
    return RecordedRun(run, history, calls, expired, records)


async def _events(client: Client, run: Run) -> tuple[list[RunEvent], bool]:
    history: list[RunEvent] = []
    clock = asyncio.get_running_loop().time
    watch = client.watch(run.run_id, durable_only=True, patience=PATIENCE)
    try:
        async with asyncio.timeout(PATIENCE) as limit, aclosing(watch) as events:
            async for event in events:
                history.append(event)
                if event.seq >= run.last_seq:
                    break
                limit.reschedule(clock() + PATIENCE)
    except RunExpired:
        return [], True
    except TimeoutError as error:
        if isinstance(error, DeadlineExceeded):
            raise
        raise DeadlineExceeded(f"the events of run {run.run_id} have not come within {PATIENCE:g} s") from None
    return history, False
