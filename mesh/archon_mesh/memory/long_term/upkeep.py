"""Work in the background: use counts, the outbox, embeddings that are missing, and the limits of growth."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss, InvalidArgument
from archon.failure_kinds import GROWTH
from archon.memory.long_term.entry import LongTermEntry
from archon_mesh.memory.long_term.embedders.base import Embedder
from archon_mesh.memory.long_term.growth import GrowthLimits, Tidied, tidy
from archon_mesh.memory.long_term.guard import Guard
from archon_mesh.memory.long_term.outbox import Outbox
from archon_mesh.memory.long_term.port import Change, LongTermStore, StoredVector
from archon_mesh.memory.long_term.query_cache import QueryCache

_log = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two rounds, unless something wakes the loop."""

TIDY_INTERVAL: Final = 3_600.0
"""Seconds between two applications of the limits of growth."""

MAX_USES: Final = 10_000
"""Entries whose uses are counted until they are written; uses of further ones are not counted."""

MAX_NEW: Final = 1_000
"""New entries of a tenant that are compared with similar ones; with more, the newest."""

EMBED_INTERVAL: Final = 60.0
"""Seconds between two searches for entries without an embedding, unless something wakes the loop."""

EMBED_BATCH: Final = 64
MAX_REFUSED: Final = 1_000
"""Entries that the embedder refuses, after which a round gives up."""

LONG: Final = 30.0
"""Seconds that a step of the background may take."""


class Upkeep:
    """One loop for all tenants. `clock` returns seconds since the Unix epoch."""

    def __init__(
        self,
        store: LongTermStore,
        embedder: Embedder,
        cache: QueryCache,
        guard: Guard,
        outbox: Outbox | None,
        limits: GrowthLimits,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._cache = cache
        self._guard = guard
        self._outbox = outbox
        self._limits = limits
        self._clock = clock
        self._uses: dict[tuple[str, str], tuple[int, float]] = {}
        self._wake = asyncio.Event()
        self._loop = BackgroundLoop("long-term memory", self._run)
        self._tidied_at = float("-inf")
        self._looked_at = float("-inf")
        self._replaced: set[str] = set()
        """The embedders before this one whose vectors were found."""

    def start(self) -> None:
        """Starts the loop."""
        self._loop.start()

    async def close(self) -> None:
        """Stops the loop, and writes the counts of uses if the store answers."""
        await self._loop.close()
        try:
            await self.write_uses()
        except ArchonError as error:
            _log.warning("uses of memories are not counted: %s", error)

    def wake(self) -> None:
        """Begins the next round now, because entries wait for their embedding."""
        self._looked_at = float("-inf")
        self._wake.set()

    def used(self, tenant: str, entry_ids: Sequence[str]) -> None:
        """Counts a use of each entry."""
        now = self._clock()
        for entry_id in entry_ids:
            key = (tenant, entry_id)
            if key in self._uses or len(self._uses) < MAX_USES:
                self._uses[key] = (self._uses.get(key, (0, now))[0] + 1, now)

    async def round(self) -> None:
        """Does everything that is due. Raises the errors of the store and the outbox."""
        await self.write_uses()
        if await self.drain() or self._clock() - self._looked_at >= EMBED_INTERVAL:
            await self.embed_missing()
        if self._clock() - self._tidied_at >= TIDY_INTERVAL:
            for tenant in await self._guard.call(self._store.tenants, limit=LONG):
                await self.tidy(tenant)
            self._tidied_at = self._clock()

    async def tidy(self, tenant: str) -> Tidied:
        """Applies the limits of growth to one tenant."""

        async def apply() -> Tidied:
            new = await self._store.recent(tenant, MAX_NEW)
            since = self._tidied_at
            return await tidy(
                self._store, tenant, self._limits, self._clock(), [e for e in new if e.create_time >= since]
            )

        done = await self._guard.call(apply, limit=10 * LONG)
        if done != Tidied():
            self._cache.invalidate(tenant)
            _log.info("long-term memory of %s: %s (%s)", tenant, done, GROWTH)
        return done

    async def write_uses(self) -> None:
        """Writes the counts of uses."""
        while self._uses:
            tenant = next(iter(self._uses))[0]
            batch = [(key, use) for key, use in self._uses.items() if key[0] == tenant][:1_000]
            changes = [Change(key[1], uses=count, used_at=at) for key, (count, at) in batch]
            for key, _ in batch:
                del self._uses[key]  # first: a count that is lost is better than one that is written twice
            await self._guard.call(lambda t=tenant, c=changes: self._store.change(t, c), limit=LONG)  # type: ignore[misc]

    async def drain(self) -> int:
        """Moves entries from the outbox to the store, each exactly once; returns their number."""
        moved = 0
        outbox = self._outbox
        while outbox is not None:
            async with outbox.lock:
                waiting = await outbox.first()
                if waiting is None:
                    break
                tenant, entries = waiting.tenant, waiting.entries
                moved += await self._move(outbox, tenant, entries)
            self._cache.invalidate(tenant)
        return moved

    async def _move(self, outbox: Outbox, tenant: str, entries: Sequence[LongTermEntry]) -> int:
        """Moves entries to the store; returns their number. An entry that the store refuses is set aside, so that it
        does not keep the others in the outbox."""
        try:
            # The store leaves an id as it is that it has: it may have stored the entry although it raised.
            await self._guard.call(lambda: self._store.insert(tenant, entries, [None] * len(entries)), limit=LONG)
        except InvalidArgument as error:
            if len(entries) > 1:
                return sum([await self._move(outbox, tenant, [entry]) for entry in entries])
            _log.error("an entry in the outbox of long-term memory is set aside: %s", error)
            await outbox.set_aside(tenant, entries[0].id)
            return 0
        await outbox.remove(tenant, [entry.id for entry in entries])
        return len(entries)

    async def embed_missing(self) -> int:
        """Embeds entries without a vector of the current embedder; returns their number. Stops if the embedder is
        down."""
        self._looked_at = self._clock()
        try:
            await self._embedder.embed(
                []
            )  # measures an unknown model when the memory is opened, not in the first query
        except ArchonError as error:
            _log.warning("the embedder fails: %s", error)
        embedded = 0
        refused: set[tuple[str, str]] = set()
        while len(refused) < MAX_REFUSED:
            limit = EMBED_BATCH + len(refused)
            found = await self._guard.call(lambda n=limit: self._store.unembedded(self._embedder.name, n), limit=LONG)  # type: ignore[misc]
            todo = [(tenant, entry) for tenant, entry in found if (tenant, entry.id) not in refused]
            if not todo:
                break
            self._report_change({entry.embedder for _, entry in todo})
            try:
                for tenant in sorted({tenant for tenant, _ in todo}):
                    entries = [entry for owner, entry in todo if owner == tenant]
                    embedded += await self._embed(tenant, entries, refused)
            except _EmbedderDown as error:
                _log.warning("memories wait for their embedding: %s", error)
                break
        if embedded and self._replaced:
            _log.info("%d memories were embedded again with %s", embedded, self._embedder.name)
        return embedded

    def _report_change(self, embedders: Set[str]) -> None:
        """Logs once that the embedder is another one than before."""
        replaced = embedders - {"", *self._replaced}
        if replaced:
            self._replaced |= replaced
            _log.warning(
                "the embedder is now %s: memories that %s embedded are embedded again in the background, and found by "
                "words until then",
                self._embedder.name,
                " and ".join(sorted(replaced)),
            )

    async def _embed(self, tenant: str, entries: Sequence[LongTermEntry], refused: set[tuple[str, str]]) -> int:
        try:
            vectors = await self._embedder.embed([entry.content for entry in entries])
        except InvalidArgument as error:
            if len(entries) > 1:
                # One text that the endpoint refuses must not keep the others from being embedded.
                return sum([await self._embed(tenant, [entry], refused) for entry in entries])
            _log.warning("the embedder refuses the memory %s: %s", entries[0].id, error)
            refused.add((tenant, entries[0].id))
            return 0
        except ArchonError as error:
            raise _EmbedderDown(str(error)) from error
        named = {
            entry.id: StoredVector(self._embedder.name, vector) for entry, vector in zip(entries, vectors, strict=True)
        }
        await self._guard.call(lambda: self._store.embed(tenant, named), limit=LONG)
        self._cache.invalidate(tenant)
        return len(entries)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.round()
            except DataLoss as error:
                _log.error("long-term memory: %s", error)
            self._loop.report_progress()
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._wake.wait()
            except TimeoutError:
                pass


class _EmbedderDown(Exception):
    """The embedder failed for a reason that is not the text's."""
