"""New entries of long-term memory: their ids, the marks of contradictions, and their way into the store."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from archon.errors import ArchonError, InvalidArgument, RequestIdReused
from archon.memory.long_term import entry as limits_of_entries
from archon.memory.long_term.contradiction import without_marks
from archon.memory.long_term.entry import DEFAULT_IMPORTANCE, LongTermEntry, checksum_of
from archon_mesh.memory.long_term.contradictions import MAX_BATCH as MAX_COMPARED_BATCH
from archon_mesh.memory.long_term.contradictions import Judge, marks_of
from archon_mesh.memory.long_term.guard import Guard
from archon_mesh.memory.long_term.port import LongTermStore, StoredVector
from archon_mesh.memory.long_term.upkeep import LONG

_REQUEST_IDS: Final = uuid.UUID("7c1d40a7-6a1f-5d0f-9a53-2f0a3c4d5e6f")
"""The namespace of ids that are made of request ids."""

JUDGE_TIMEOUT: Final = 30.0
"""Seconds for all questions to the judge about one entry."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to store. With a `request_id`, a repeated store of it returns the id of the first."""

    content: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    importance: float = DEFAULT_IMPORTANCE
    request_id: str = ""


def new_entry(tenant: str, new: NewEntry, metadata: Mapping[str, str], now: float) -> LongTermEntry:
    """Returns the entry to store, with `metadata` besides its own and the time `now`, in seconds since the epoch.
    Raises InvalidArgument, and ResourceExhausted if it is too large."""
    content = limits_of_entries.check_content(new.content)
    all_metadata = limits_of_entries.check_metadata({**metadata, **new.metadata})
    importance = limits_of_entries.check_importance(new.importance)
    entry_id = str(uuid.uuid5(_REQUEST_IDS, f"{tenant}\0{new.request_id}") if new.request_id else uuid.uuid4())
    now = round(now, 6)
    return LongTermEntry(
        entry_id, content, now, all_metadata, importance, checksum=checksum_of(entry_id, content, now, all_metadata)
    )


class EntryWriter:
    """Writes entries of any tenant over the guard of the store."""

    def __init__(self, store: LongTermStore, guard: Guard, judge: Judge | None, *, finds_contradictions: bool) -> None:
        self._store, self._guard, self._judge = store, guard, judge
        self._finds_contradictions = finds_contradictions

    async def marked(
        self, tenant: str, created: list[LongTermEntry], vectors: Sequence[StoredVector | None]
    ) -> list[LongTermEntry]:
        """Marks entries that contradict earlier ones. A store or a judge that fails delays nothing: the entry is stored
        without a comparison."""
        if len(created) > MAX_COMPARED_BATCH or not self._finds_contradictions:
            return created
        marked: list[LongTermEntry] = []
        for number, (entry, vector) in enumerate(zip(created, vectors, strict=True)):
            try:
                marks = await self._guard.call(partial(marks_of, self._store, tenant, entry, vector), limit=None)
                if not marks and self._judge is not None:
                    judged = partial(marks_of, self._store, tenant, entry, vector, self._judge)
                    async with asyncio.timeout(JUDGE_TIMEOUT):
                        marks = await judged()
            except (ArchonError, TimeoutError) as error:
                _log.warning("memories are stored without a search for contradictions: %s", error)
                return [*marked, *created[number:]]
            metadata = {**entry.metadata, **marks}
            checksum = checksum_of(entry.id, entry.content, entry.create_time, metadata)
            marked.append(replace(entry, metadata=metadata, checksum=checksum) if marks else entry)
        return marked

    async def insert(
        self, tenant: str, created: Sequence[LongTermEntry], vectors: Sequence[StoredVector | None]
    ) -> int:
        """Stores entries and returns the number of new ones. Vectors that the store refuses, such as vectors of a model
        that was exchanged behind its name, are left out: the texts are worth more."""

        async def attempt(stored: Sequence[StoredVector | None]) -> int:
            return await self._guard.call(
                lambda: self._store.insert(tenant, created, stored), limit=None if len(created) == 1 else LONG
            )

        try:
            return await attempt(vectors)
        except InvalidArgument as error:
            if not any(vectors):
                raise
            _log.warning("memories are stored without their embedding: %s", error)
            return await attempt([None] * len(created))

    async def check_repeated(self, tenant: str, created: Sequence[LongTermEntry]) -> None:
        """Raises RequestIdReused if one of the entries was stored before with another text or metadata."""
        stored = await self._guard.call(lambda: self._store.get(tenant, [entry.id for entry in created]))
        by_id = {entry.id: entry for entry in stored}
        for entry in created:
            before = by_id.get(entry.id)
            if before is not None and (
                (before.content, without_marks(before.metadata)) != (entry.content, without_marks(entry.metadata))
            ):
                raise RequestIdReused("the request id was used before for another text or other metadata")
