"""Long-term memory of one tenant over a store: embeds, searches, survives outages, and stays within its limits."""

from __future__ import annotations

import copy
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from archon.clock import monotonic
from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, Unavailable
from archon.failure_kinds import EMBEDDING
from archon.memory.long_term import entry as limits_of_entries
from archon.memory.long_term.context import (
    NO_TEMPLATE,
    CountTokens,
    RetrievedContext,
    Template,
    assemble,
    build_query,
    estimate_tokens,
)
from archon.memory.long_term.contradiction import (
    Contradiction,
    Keep,
    contradictions,
    resolve_contradiction,
)
from archon.memory.long_term.entry import (
    DEFAULT_IMPORTANCE,
    DEFAULT_LIMIT,
    MAX_LIMIT,
    FoundEntry,
    LongTermEntry,
    LongTermStats,
)
from archon.memory.long_term.summary import MAX_MEMORIES, Summarize, summarize
from archon.memory.long_term.transfer import read_entries, write_entries
from archon_mesh.memory.long_term import measuring
from archon_mesh.memory.long_term.contradictions import Judge
from archon_mesh.memory.long_term.embedders.base import Embedder
from archon_mesh.memory.long_term.embedders.calibrated import CalibratedEmbedder
from archon_mesh.memory.long_term.embedders.checked import CheckedEmbedder
from archon_mesh.memory.long_term.embedders.offline import OfflineEmbedder
from archon_mesh.memory.long_term.entry_writer import EntryWriter, NewEntry, new_entry
from archon_mesh.memory.long_term.growth import DEFAULT_GROWTH, GrowthLimits, Tidied
from archon_mesh.memory.long_term.guard import LIMIT, Guard
from archon_mesh.memory.long_term.outbox import Outbox
from archon_mesh.memory.long_term.port import MAX_BATCH, Change, Filters, LongTermStore, StoredVector, Vector
from archon_mesh.memory.long_term.query_cache import QueryCache
from archon_mesh.memory.long_term.retrieval import (
    DEFAULT_WEIGHTS,
    Retrieval,
    Retriever,
    Weights,
    aspects,
)
from archon_mesh.memory.long_term.upkeep import LONG, Upkeep

_CALIBRATION: Final = "calibration of "
"""Begins the key of the store's note with the measurement of an embedder."""

_PAGE: Final = 200

_log = logging.getLogger(__name__)


class LongTermMemory:
    """Texts that outlive runs, found by meaning and by words. Use it as an async context manager: it opens and closes
    store, outbox and embedder, and runs the upkeep in the background.

    A store that is down costs a caller at most about two seconds, once: then calls raise Unavailable at once for a
    while, and new entries wait in the outbox, if there is one. `clock` returns seconds since the Unix epoch.
    """

    def __init__(
        self,
        store: LongTermStore,
        embedder: Embedder | None = None,
        *,
        tenant: str = "default",
        metadata: Mapping[str, str] | None = None,
        outbox: Outbox | None = None,
        limits: GrowthLimits = DEFAULT_GROWTH,
        weights: Weights = DEFAULT_WEIGHTS,
        timeout: float = LIMIT,
        embedder_timeout: float | None = None,
        finds_contradictions: bool = True,
        judge: Judge | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        """`metadata` is added to every entry that is stored, and is no filter of queries. `timeout` is in seconds: how
        long a caller waits for the store, and for the embedder unless that has an `embedder_timeout`, before they count
        as down. With `finds_contradictions`, an entry that contradicts earlier ones is marked; `judge` is asked about
        entries with a similar meaning that no rule compares."""
        embedder = CheckedEmbedder(embedder or OfflineEmbedder())
        knows_meanings = embedder.range is None
        if knows_meanings:
            embedder = CalibratedEmbedder(embedder, self._load_calibration, self._keep_calibration)
        self.tenant = tenant
        self._metadata = limits_of_entries.check_metadata(metadata)
        self._store = store
        self._embedder = embedder
        self._outbox = outbox
        self._clock = clock
        self._guard = Guard("store of long-term memory", limit=timeout, clock=monotonic)
        self._writer = EntryWriter(store, self._guard, judge, finds_contradictions=finds_contradictions)
        self._embedding = Guard("embedder", kind=EMBEDDING, limit=embedder_timeout or timeout, clock=monotonic)
        self._cache = QueryCache(monotonic)
        self._retriever = Retriever(store, embedder, clock, weights, knows_meanings)
        self.upkeep = Upkeep(store, embedder, self._cache, self._guard, outbox, limits, clock)

    async def __aenter__(self) -> Self:
        if self._outbox is not None:
            await self._outbox.open()
        try:
            await self._store.open()
        except Unavailable:
            if self._outbox is None:
                raise
        except BaseException:
            if self._outbox is not None:
                await self._outbox.close()
            raise
        self.upkeep.start()
        measuring.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.upkeep.close()
        await self._embedder.close()
        await self._store.close()
        if self._outbox is not None:
            await self._outbox.close()

    def of_tenant(self, tenant: str) -> LongTermMemory:
        """Returns the memory of another tenant over the same store. Only the original is opened and closed."""
        other = copy.copy(self)
        other.tenant = tenant
        return other

    async def store(
        self,
        content: str,
        metadata: Mapping[str, str] | None = None,
        importance: float = DEFAULT_IMPORTANCE,
        *,
        request_id: str = "",
    ) -> str:
        """Stores a text durably and returns its id. If the embedder fails, the text is embedded later.

        Raises InvalidArgument, ResourceExhausted if the text is too large or the outbox is full, RequestIdReused if the
        request id was used for another text, and Unavailable if the store is down and there is no outbox.
        """
        return (await self.store_batch([NewEntry(content, metadata or {}, importance, request_id)]))[0]

    async def store_batch(self, entries: Sequence[NewEntry]) -> list[str]:
        """Stores up to MAX_BATCH texts in one transaction and returns their ids. Raises the errors of `store`."""
        if len(entries) > MAX_BATCH:
            raise InvalidArgument(f"a batch has at most {MAX_BATCH:,} entries")
        if not entries:
            return []
        created = [new_entry(self.tenant, entry, self._metadata, self._clock()) for entry in entries]
        vectors: list[StoredVector | None] = [None] * len(created)
        try:
            embedded = await self._embed(self._embedder.embed, [entry.content for entry in created])
            vectors = [StoredVector(self._embedder.name, vector) for vector in embedded]
        except ArchonError as error:
            _log.warning("memories are stored, and embedded later: %s (%s)", error, EMBEDDING)
            self.upkeep.wake()
        created = await self._writer.marked(self.tenant, created, vectors)
        try:
            new = await self._writer.insert(self.tenant, created, vectors)
        except (Unavailable, DeadlineExceeded):
            if self._outbox is None:
                raise
            await self._outbox.put(self.tenant, created)
            return [entry.id for entry in created]
        finally:
            self._cache.invalidate(self.tenant)
        if new < len(created):
            await self._writer.check_repeated(self.tenant, created)
        return [entry.id for entry in created]

    async def query(
        self,
        query_text: str,
        limit: int = DEFAULT_LIMIT,
        threshold: float | None = None,
        filters: Mapping[str, str] | None = None,
        *,
        with_archived: bool = False,
    ) -> list[FoundEntry]:
        """Returns the entries that answer a query, best first, each with a score from 0 to 1.

        `filters` are pairs of metadata that an entry must have. Without a threshold, 0.7 is lowered step by step while
        nothing reaches it; then follow the best by words and the most recent entries. A threshold that is given is a
        hard limit. Archived entries are found by words. Raises InvalidArgument, Unavailable.
        """
        return list((await self.search(query_text, limit, threshold, filters, with_archived=with_archived)).found)

    async def search(
        self,
        query_text: str,
        limit: int = DEFAULT_LIMIT,
        threshold: float | None = None,
        filters: Mapping[str, str] | None = None,
        *,
        with_archived: bool = False,
    ) -> Retrieval:
        """Returns the results of `query`, with the threshold and the step of the chain that found it."""
        query = limits_of_entries.check_query(query_text)
        limits_of_entries.check_limit(limit)
        if threshold is not None:
            limits_of_entries.check_threshold(threshold)
        pairs = limits_of_entries.check_metadata(filters, "filters")
        key = (query, limit, threshold, tuple(sorted(pairs.items())), with_archived)
        try:
            if (result := self._cache.get(self.tenant, key)) is None:
                generation = self._cache.generation
                wanted = Filters(pairs, with_archived)
                vectors = await self._query_vectors(query)
                result = await self._guard.call(
                    lambda: self._retriever.search(self.tenant, query, vectors, limit, threshold, wanted)
                )
                self._cache.put(self.tenant, key, result, generation)
        except ArchonError:
            measuring.failed()
            raise
        measuring.done(result, has_threshold=threshold is not None)
        self.upkeep.used(self.tenant, [found.entry.id for found in result.found])
        return result

    async def get(self, entry_id: str) -> LongTermEntry | None:
        """Returns an entry, or None if there is none with this id. Raises Unavailable."""
        if not _is_id(entry_id):
            return None
        found = await self._guard.call(lambda: self._store.get(self.tenant, [entry_id]))
        return found[0] if found else None

    async def recent(
        self, limit: int = MAX_LIMIT, filters: Mapping[str, str] | None = None, *, with_archived: bool = False
    ) -> list[LongTermEntry]:
        """Returns the newest entries, newest first. Raises InvalidArgument, Unavailable."""
        wanted = Filters(limits_of_entries.check_metadata(filters, "filters"), with_archived)
        limits_of_entries.check_limit(limit, MAX_BATCH)
        return await self._guard.call(lambda: self._store.recent(self.tenant, limit, wanted))

    async def page(self, after: str = "", limit: int = _PAGE) -> list[LongTermEntry]:
        """Returns entries in the order of their ids, archived ones included, from the first above `after` on."""
        limits_of_entries.check_limit(limit, MAX_BATCH)
        if after and not _is_id(after):
            raise InvalidArgument(f"{after!r} is not the id of an entry")
        return await self._guard.call(lambda: self._store.page(self.tenant, after, limit), limit=LONG)

    async def delete(self, entry_id: str) -> bool:
        """Deletes an entry, also from the outbox; returns whether it existed. Raises Unavailable."""
        if not _is_id(entry_id):
            return False
        deleted = 0
        if self._outbox is not None:
            async with self._outbox.locked():
                deleted = await self._outbox.remove(self.tenant, [entry_id])
        try:
            return bool(deleted + await self._guard.call(lambda: self._store.delete(self.tenant, [entry_id])))
        finally:
            self._cache.invalidate(self.tenant)

    async def forget(self, *, user: str | None = None, session: str | None = None) -> int:
        """Deletes everything of a user, or of a session, or of a user in a session: active, archived and damaged
        entries, caches, and entries in the outbox. Nothing of it is left in the files on return.

        Returns the number of entries. Raises InvalidArgument without a user and a session, and Unavailable, after which
        a part may be left: repeat the call.
        """
        pairs = {key: value for key, value in (("user", user), ("session", session)) if value is not None}
        if not pairs or not all(pairs.values()):
            raise InvalidArgument("forget needs a user or a session")
        waiting = 0
        if self._outbox is not None:
            async with self._outbox.locked():
                waiting = await self._outbox.forget(self.tenant, pairs)
        try:
            return waiting + await self._guard.call(lambda: self._store.forget(self.tenant, pairs), limit=LONG)
        finally:
            self._cache.invalidate(self.tenant)

    async def feedback(self, entry_id: str, useful: bool) -> bool:
        """Counts whether an entry was useful, which weighs in later queries; returns whether the entry exists."""
        return await self._change(Change(entry_id, useful=int(useful), not_useful=int(not useful)))

    async def set_importance(self, entry_id: str, importance: float) -> bool:
        """Sets the importance of an entry, from 0 to 1; returns whether the entry exists."""
        return await self._change(Change(entry_id, importance=limits_of_entries.check_importance(importance)))

    async def archive(self, entry_id: str, archived: bool = True) -> bool:
        """Moves an entry to the archive, or back; returns whether the entry exists."""
        changed = await self._change(Change(entry_id, archived=archived))
        self.upkeep.wake()
        return changed

    async def stats(self) -> LongTermStats:
        """Returns counts of entries. Raises Unavailable."""
        stats = await self._guard.call(lambda: self._store.stats(self.tenant))
        waiting = 0 if self._outbox is None else await self._outbox.count(self.tenant)
        return replace(stats, waiting=waiting)

    async def damaged(self) -> list[str]:
        """Returns the ids of entries that were set aside because their checksum is wrong."""
        return await self._guard.call(lambda: self._store.damaged(self.tenant))

    async def summarize_recent(
        self,
        max_memories: int = MAX_MEMORIES,
        *,
        model: Summarize | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> str:
        """Returns a summary of the newest entries: by the model, or without one an extract, the same for the same
        entries. Raises Unavailable, and the model's errors."""
        return await summarize(await self.recent(max_memories, filters), model)

    async def retrieve_context(
        self,
        current_query: str,
        token_budget: int,
        *,
        history: Sequence[str] = (),
        template: Template = NO_TEMPLATE,
        filters: Mapping[str, str] | None = None,
        limit: int = 20,
        count_tokens: CountTokens = estimate_tokens,
    ) -> RetrievedContext:
        """Returns template, memories for the query and the last turns, and the newest turns, within the budget.

        History gets 50 % of the budget, memories 30 %, the template 20 %. Raises InvalidArgument, Unavailable.
        """
        query = build_query(limits_of_entries.check_query(current_query), history)
        found = await self.query(query, limit, filters=filters)
        now = self._clock()
        return assemble(found, token_budget, history=history, template=template, count_tokens=count_tokens, now=now)

    async def export_to(self, file: Path) -> int:
        """Writes all entries, archived ones included, to a file; returns their number."""
        return await write_entries(file, self._pages())

    async def import_from(self, file: Path) -> int:
        """Stores the entries of an export, of this or another store; ids that exist stay as they are.

        Returns the number of new entries. Raises NotFound, InvalidArgument if the file is not an export, and DataLoss,
        before anything is stored, if it was changed.
        """
        new = 0
        async for batch in read_entries(file):
            new += await self.restore(batch)
        return new

    async def restore(self, entries: Sequence[LongTermEntry]) -> int:
        """Stores entries of an export with their ids and counts; returns the number of new ones.

        Raises InvalidArgument if an entry is not intact or exceeds a limit.
        """
        for entry in entries:
            limits_of_entries.check_content(entry.content)
            limits_of_entries.check_metadata(entry.metadata)
            if not entry.is_intact or not _is_id(entry.id):
                raise InvalidArgument(f"the entry {entry.id!r} is not intact")
        try:
            return await self._guard.call(
                lambda: self._store.insert(self.tenant, entries, [None] * len(entries)), limit=LONG
            )
        finally:
            self._cache.invalidate(self.tenant)
            self.upkeep.wake()

    async def tidy(self) -> Tidied:
        """Applies the limits of growth now."""
        return await self.upkeep.tidy(self.tenant)

    async def contradictions(self, filters: Mapping[str, str] | None = None) -> list[Contradiction]:
        """Returns the open contradictions, the newest first. Raises InvalidArgument, Unavailable."""
        return await contradictions(self, filters)

    async def resolve_contradiction(self, entry_id: str, keep: Keep = Keep.BOTH, *, merged: str = "") -> list[str]:
        """Carries out the owner's decision, as the function of this name does."""
        return await resolve_contradiction(self, entry_id, keep, merged)

    async def _change(self, change: Change) -> bool:
        if not _is_id(change.entry_id):
            return False
        try:
            return bool(await self._guard.call(lambda: self._store.change(self.tenant, [change])))
        finally:
            self._cache.invalidate(self.tenant)

    async def _query_vectors(self, query: str) -> list[Vector]:
        """Returns the vectors of a query's aspects, embedded together; none if the embedder fails."""
        try:
            return await self._embed(self._embedder.embed_queries, aspects(query))
        except ArchonError as error:
            _log.warning("the query is searched by words only: %s (%s)", error, EMBEDDING)
            return []

    async def _embed(
        self, embed: Callable[[Sequence[str]], Awaitable[list[Vector]]], texts: Sequence[str]
    ) -> list[Vector]:
        limit = None if len(texts) < 10 else max(LONG, self._embedding.limit)
        return await self._embedding.call(lambda: embed(texts), limit=limit)

    async def _load_calibration(self, embedder: str) -> str | None:
        return await self._guard.call(lambda: self._store.note(_CALIBRATION + embedder))

    async def _keep_calibration(self, embedder: str, calibration: str) -> None:
        await self._guard.call(lambda: self._store.set_note(_CALIBRATION + embedder, calibration))

    async def _pages(self) -> AsyncIterator[list[LongTermEntry]]:
        after = ""
        while page := await self.page(after):
            yield page
            after = page[-1].id


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
