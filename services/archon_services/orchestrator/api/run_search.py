"""The list of runs, filtered by session, state, time and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss, FieldViolation, InvalidArgument
from archon.wire import parts_text, to_seconds
from archon_mesh.core.value import value
from archon_services.orchestrator.journal import Journal, RunRow
from archon_services.orchestrator.journal.framing import events_in

MAX_TEXT: Final = 200
"""Characters of a text to search for."""

MAX_SEARCHED: Final = 1_000
"""Runs that one page looks through."""

MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""Bytes of submits that one page looks through."""

_ROWS: Final = 200
"""Runs that are read at a time."""

Position = tuple[float, str]
"""The (created_at, run_id) of a run."""


@value
class RunFilter:
    """The runs of a tenant that are wanted: of a session and with a text unless these are empty, in one of `states` if
    there are any, created from `since` on and before `until` (wall seconds; 0: no limit)."""

    tenant: str
    session_id: str
    states: tuple[int, ...]
    text: str
    since: float
    until: float

    @classmethod
    def of(cls, request: pb.ListRunsRequest, tenant: str) -> RunFilter:
        """Returns the filter of a request. Raises InvalidArgument if its text is too long."""
        if len(request.text) > MAX_TEXT:
            message = f"text has {len(request.text):,} characters, at most {MAX_TEXT} are allowed"
            raise InvalidArgument(message, field_violations=[FieldViolation("text", message)])
        since = to_seconds(request.created_since) if request.HasField("created_since") else 0.0
        until = to_seconds(request.created_before) if request.HasField("created_before") else 0.0
        return cls(tenant, request.session_id, tuple(request.states), request.text, since, until)

    @property
    def key(self) -> tuple[object, ...]:
        """The values to which a page token is bound, without the tenant."""
        named = (self.text.casefold(), self.since, self.until)
        return (self.session_id, self.states, *(named if any(named) else ()))


class RunSearch:
    """Pages of runs from a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def page(self, wanted: RunFilter, after: Position | None, size: int) -> tuple[list[RunRow], Position | None]:
        """Returns at most `size` runs after a position, newest first, and the position of the next page, None on the
        last one."""
        if wanted.until:
            after = min(after, (wanted.until, "")) if after is not None else (wanted.until, "")
        if not wanted.text:
            rows = await self._rows(wanted, after, size + 1)
            page = rows[:size]
            return page, _position(page[-1]) if len(rows) > size else None
        return await self._search(wanted, after, size)

    async def _search(
        self, wanted: RunFilter, after: Position | None, size: int
    ) -> tuple[list[RunRow], Position | None]:
        needle, found = wanted.text.casefold(), list[RunRow]()
        searched = read = 0
        while searched < MAX_SEARCHED and read < MAX_READ_BYTES:
            rows = await self._rows(wanted, after, _ROWS)
            openings = await self._journal.openings([row.run_id for row in rows if not row.compacted]) if rows else {}
            for row in rows:
                content = row.summary if row.compacted else openings.get(row.run_id, b"")
                after, searched, read = _position(row), searched + 1, read + len(content)
                if _has_text(row, content, needle):
                    found.append(row)
                    if len(found) == size:
                        return found, after
            if len(rows) < _ROWS:
                return found, None
        return found, after

    async def _rows(self, wanted: RunFilter, before: Position | None, limit: int) -> list[RunRow]:
        return await self._journal.runs(
            tenant=wanted.tenant,
            session_id=wanted.session_id,
            states=wanted.states,
            before=before,
            since=wanted.since,
            limit=limit,
        )


def _position(row: RunRow) -> Position:
    return row.created_at, row.run_id


def _has_text(row: RunRow, content: bytes, needle: str) -> bool:
    if needle in row.run_id.casefold() or needle in row.session_id.casefold():
        return True
    if needle not in content.decode(errors="ignore").casefold():
        return False  # no field has it: all texts of a message are in its bytes
    try:
        return any(needle in text.casefold() for text in _texts(row, content))
    except (DataLoss, DecodeError):
        return True  # cut off in the goal, which is the only large field


def _texts(row: RunRow, content: bytes) -> Iterable[str]:
    """Returns the goal, the roles and the metadata of a run."""
    if row.compacted:
        run = run_pb2.Run.FromString(content)
        roles: Sequence[str] = [task.role for task in run.tasks]
        return (parts_text(run.goal), *roles, *run.metadata, *run.metadata.values())
    submitted = run_pb2.RunEvent.FromString(events_in(content)[0]).submitted
    return (parts_text(submitted.goal), *submitted.roles, *submitted.metadata, *submitted.metadata.values())
