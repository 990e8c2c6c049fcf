"""Runs as the room reads them: one, followed to a state, or a page of a list."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

from archon.client import Client
from archon.errors import InvalidArgument, RunExpired, UnknownRun
from archon.types.run import Run
from archon_services.gateway.a2a.events import TaskEvent, TaskEvents, closing_events
from archon_services.gateway.a2a.tasks import AGENT, changed_at, context_of, task_of
from archon_services.gateway.mesh_access import MeshAccess

WINDOW: Final = 1_000
"""Runs that are sorted by the time of their status: the newest ones, then the next."""

READERS: Final = 8
"""Runs of a page that are read at a time."""

READS: Final = 400
"""Runs that are read for one page."""


async def followed(
    client: Client, run: Run, *, until_interrupted: bool, pieces: bool = True
) -> AsyncGenerator[TaskEvent, None]:
    """Yields the events of a task after the state `run`, until it has ended; or, with `until_interrupted`, until it
    waits for a person. A wait for a secret does not end it. The caller closes the generator."""
    folded, is_over = TaskEvents(context_of(run), run.last_seq, pieces), False
    try:
        async with aclosing(client.watch(run.run_id, durable_only=not pieces)) as events:
            async for event in events:
                for out in folded.apply(event):
                    yield out
                if is_over := bool(folded.view.ended):
                    break
                if until_interrupted and folded.needs_input and folded.view.last_seq >= run.last_seq:
                    return
    except RunExpired:  # it has ended meanwhile
        is_over = True
    if is_over:
        for out in closing_events(await client.get(run.run_id), folded.sent):
            yield out


async def settled(client: Client, run: Run, seconds: float) -> Run:
    """Returns the run once it has ended or waits for a person, or after some seconds as it is then."""
    if run.state.final or run.questions:
        return run
    folded = TaskEvents(context_of(run), run.last_seq, pieces=False)
    with suppress(TimeoutError, RunExpired):
        async with (
            asyncio.timeout(seconds),
            aclosing(client.watch(run.run_id, durable_only=True)) as events,
        ):
            async for event in events:
                folded.apply(event)
                if folded.view.ended or (folded.view.last_seq >= run.last_seq and folded.interrupted):
                    break
    return await client.get(run.run_id)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The tasks that a list is for. `after` is in seconds since the epoch; `agent` is a role, empty for all runs."""

    agent: str
    context_id: str
    state: int
    after: float

    def matches(self, run: Run) -> bool:
        """Whether a run is one of them."""
        if self.agent and run.metadata.get(AGENT) != self.agent:
            return False
        return (not self.state or task_of(run).status.state == self.state) and changed_at(run) >= self.after

    def may_match(self, row: Run) -> bool:
        """Whether a run may be one of them, by its times alone."""
        return not row.end_time or row.end_time >= self.after


@dataclass(frozen=True, slots=True)
class Page:
    """A page of runs, the newest status first; `total` bounds the number of runs in all pages."""

    runs: Sequence[Run]
    next_token: str
    total: int


async def page_of(mesh: MeshAccess, wanted: Wanted, size: int, token: str) -> Page:
    """Returns a page, which may have fewer runs than `size` before the last one: a list of runs does not say to which
    agent they went, and of each page at most READS are read. Raises InvalidArgument if the token is not from the page
    before."""
    window, place = _read_token(token)
    found: list[Run] = []
    reads = 0
    while True:
        rows, following = await mesh.runs_page(size=WINDOW, token=window, session_id=wanted.context_id)
        candidates = sorted(filter(wanted.may_match, rows), key=_place, reverse=True)
        total = len(candidates)
        for batch in _batches([row for row in candidates if place is None or _place(row) < place]):
            for row, run in zip(batch, await in_full(mesh.runs, batch), strict=True):
                reads, place = reads + 1, _place(row)
                if run is not None and wanted.matches(run):
                    found.append(run)
                if len(found) == size or reads == READS:
                    last = row is candidates[-1]
                    more = (_token(following, None) if following else "") if last else _token(window, place)
                    return _page(found, more, total)
        if not following:
            return _page(found, "", total)
        window, place = following, None


def _page(runs: list[Run], token: str, total: int) -> Page:
    return Page(sorted(runs, key=lambda run: (changed_at(run), run.run_id), reverse=True), token, total)


def _batches(rows: Sequence[Run]) -> Iterator[Sequence[Run]]:
    for start in range(0, len(rows), READERS):
        yield rows[start : start + READERS]


async def in_full(client: Client, runs: Sequence[Run]) -> list[Run | None]:
    """Returns runs with all that is known of them, in order; None for one that was deleted meanwhile."""

    async def read(run: Run) -> Run | None:
        try:
            return await client.get(run.run_id)
        except UnknownRun:
            return None

    return list(await asyncio.gather(*map(read, runs)))


def _place(row: Run) -> tuple[float, str]:
    return row.end_time or row.create_time, row.run_id


def _token(window: str, place: tuple[float, str] | None) -> str:
    return base64.urlsafe_b64encode(json.dumps([window, place]).encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[str, tuple[float, str] | None]:
    if not token:
        return "", None
    try:
        content: Any = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        window, place = content
        if not isinstance(window, str) or (place is not None and not isinstance(place[1], str)):
            raise ValueError
        return window, None if place is None else (float(place[0]), place[1])
    except (ValueError, TypeError, IndexError, binascii.Error, UnicodeDecodeError):
        raise InvalidArgument("the page token is not from the page before") from None
