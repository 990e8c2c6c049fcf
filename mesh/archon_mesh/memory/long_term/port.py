"""The port of stores of long-term memory. Every store passes the suite in tests/integration/mesh/memory/long_term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from archon.memory.long_term.entry import LongTermEntry, LongTermStats

Vector: TypeAlias = "array[float]"
"""The embedding of a text: 32-bit floats of length 1 (type code `f`)."""

MAX_BATCH: Final = 1_000
"""Entries of one call that writes or reads entries by id."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions for entries: to have every pair of `metadata`, and not be archived unless `with_archived`."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    with_archived: bool = False


NO_FILTERS: Final = Filters()


@dataclass(frozen=True, slots=True)
class StoredVector:
    """The embedding of an entry by the embedder of this name."""

    embedder: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the mutable fields of an entry. Counters are increased; None leaves a value as it is.

    Archiving removes the vector of an entry; an entry that is restored waits for its embedding again.
    """

    entry_id: str
    uses: int = 0
    used_at: float | None = None
    useful: int = 0
    not_useful: int = 0
    importance: float | None = None
    archived: bool | None = None


class LongTermStore(ABC):
    """Stores entries with their vectors, per tenant: no call returns or changes an entry of another tenant.

    A damaged entry, whose checksum is wrong, is set aside when it is read: no later call but `damaged`, `delete` and
    `forget` sees it. All calls raise Unavailable if the store is down or slow, and ResourceExhausted if it is full or
    overloaded; a write that raised may still happen. Use it as an async context manager.
    """

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Opens the store. Raises Unavailable, and FailedPrecondition if a newer version of Archon wrote it."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the store. Idempotent."""

    @abstractmethod
    async def insert(
        self, tenant: str, entries: Sequence[LongTermEntry], vectors: Sequence[StoredVector | None]
    ) -> int:
        """Stores entries, each with its vector or None, durably. An id that exists is left as it is.

        Returns the number of new entries.
        """

    @abstractmethod
    async def embed(self, tenant: str, vectors: Mapping[str, StoredVector]) -> None:
        """Replaces the vectors of entries by id. Skips unknown and archived entries."""

    @abstractmethod
    async def unembedded(self, embedder: str, limit: int) -> list[tuple[str, LongTermEntry]]:
        """Returns active entries of any tenant, with their tenants, that have no vector of this embedder."""

    @abstractmethod
    async def get(self, tenant: str, entry_ids: Sequence[str]) -> list[LongTermEntry]:
        """Returns the entries that exist, in no particular order."""

    @abstractmethod
    async def nearest(
        self, tenant: str, query: StoredVector, limit: int, filters: Filters = NO_FILTERS
    ) -> list[tuple[LongTermEntry, float]]:
        """Returns the entries whose vectors of the same embedder are nearest, with cosines from -1 to 1, nearest
        first."""

    @abstractmethod
    async def with_words(
        self, tenant: str, words: Sequence[str], limit: int, filters: Filters = NO_FILTERS
    ) -> list[LongTermEntry]:
        """Returns the entries that contain any of the words, the best by BM25 first."""

    @abstractmethod
    async def recent(self, tenant: str, limit: int, filters: Filters = NO_FILTERS) -> list[LongTermEntry]:
        """Returns the newest entries, newest first."""

    @abstractmethod
    async def least_valuable(self, tenant: str, limit: int, *, archived: bool) -> list[LongTermEntry]:
        """Returns the entries that were used, or else created, longest ago, of the active or of the archived ones."""

    @abstractmethod
    async def page(self, tenant: str, after: str, limit: int) -> list[LongTermEntry]:
        """Returns entries in the order of their ids, archived ones included, from the first above `after` on."""

    @abstractmethod
    async def change(self, tenant: str, changes: Sequence[Change]) -> int:
        """Applies changes durably; skips unknown entries. Returns the number of changed entries."""

    @abstractmethod
    async def delete(self, tenant: str, entry_ids: Sequence[str]) -> int:
        """Deletes entries with everything about them. Returns the number of those that existed."""

    @abstractmethod
    async def forget(self, tenant: str, metadata: Mapping[str, str]) -> int:
        """Deletes all entries with these pairs of metadata, archived and damaged ones included, so that nothing of them
        is left in the store's files. Returns their number. Raises InvalidArgument if there are no pairs."""

    @abstractmethod
    async def damaged(self, tenant: str, limit: int = MAX_BATCH) -> list[str]:
        """Returns the ids of entries that were set aside."""

    @abstractmethod
    async def stats(self, tenant: str) -> LongTermStats:
        """Returns the counts of a tenant's entries."""

    @abstractmethod
    async def tenants(self) -> list[str]:
        """Returns the tenants that have entries, sorted."""

    @abstractmethod
    async def note(self, key: str) -> str | None:
        """Returns a note that was kept with the entries, or None. A store may keep none."""

    @abstractmethod
    async def set_note(self, key: str, text: str) -> None:
        """Keeps a note with the entries, in place of an earlier one; a store that keeps none ignores it."""
