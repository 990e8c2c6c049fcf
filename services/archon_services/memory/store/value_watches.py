"""Watches of working memory: each reader hears which keys have changed, and reads their present values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from archon.errors import ArchonError, ResourceExhausted
from archon.wire import MAX_CHECKED_BYTES
from archon_services.memory.domain.working import Value, Write

MAX_WATCHES: Final = 1_000
"""Watches of one memory service, over all scopes."""

MAX_BATCH_BYTES: Final = MAX_CHECKED_BYTES - 64 * 1024
"""A batch ends before the value that would exceed this size."""

_PAGE: Final = 1_000
_OVERHEAD: Final = 1_536
"""Bytes of a value besides its JSON: the longest key has 1,024."""

Topic = tuple[str, str]
"""A tenant and a scope."""


class Values(Protocol):
    """The reads of a WorkingStore."""

    async def value(self, tenant: str, scope: str, key: str) -> Value | None: ...

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]: ...


@dataclass(frozen=True, slots=True)
class ValueBatch:
    """Values that are stored or have changed, and keys whose values were deleted. `is_current`: all values that were
    stored when the watch began have been sent."""

    values: tuple[Value, ...] = ()
    deleted: tuple[str, ...] = ()
    is_current: bool = False


class ChangedKeys:
    """The keys that have changed since a reader has taken them last: each once, however often it changes."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._keys: dict[str, None] = {}
        self._end: ArchonError | None = None
        self._wake = asyncio.Event()

    def add(self, key: str) -> None:
        """Notes that a key has changed."""
        if key.startswith(self._prefix):
            self._keys[key] = None
            self._wake.set()

    def end(self, error: ArchonError) -> None:
        """Ends the watch with an error."""
        self._end = self._end or error
        self._wake.set()

    async def take(self) -> list[str]:
        """Waits for changes, without a bound of its own, and returns their keys. Raises the error of the end."""
        while not self._keys:
            if self._end is not None:
                raise self._end
            self._wake.clear()
            await self._wake.wait()
        keys, self._keys = list(self._keys), {}
        return keys


class ValueWatches:
    """All watches of a store. `changed` is called after each write, whatever its outcome."""

    def __init__(self) -> None:
        self._watches: dict[Topic, set[ChangedKeys]] = {}
        self._count = 0
        self._closed_by: ArchonError | None = None

    def changed(self, request: Write) -> None:
        """Marks the key of a write as changed for the watches of its scope."""
        for watch in self._watches.get((request.tenant, request.scope), ()):
            watch.add(request.key)

    def close(self, error: ArchonError) -> None:
        """Ends all watches with `error`, including later ones."""
        self._closed_by = error
        for watches in self._watches.values():
            for watch in watches:
                watch.end(error)

    @contextmanager
    def changes(self, topic: Topic, prefix: str) -> Iterator[ChangedKeys]:
        """Notes changes for the duration of the block. Raises ResourceExhausted if there are too many watches."""
        if self._count >= MAX_WATCHES:
            raise ResourceExhausted(f"too many watches: at most {MAX_WATCHES:,}", retry_delay=1.0)
        watch = ChangedKeys(prefix)
        if self._closed_by is not None:
            watch.end(self._closed_by)
        self._watches.setdefault(topic, set()).add(watch)
        self._count += 1
        try:
            yield watch
        finally:
            self._count -= 1
            self._watches[topic].discard(watch)
            if not self._watches[topic]:
                del self._watches[topic]

    async def watch(self, store: Values, tenant: str, scope: str, prefix: str) -> AsyncGenerator[ValueBatch, None]:
        """Yields the values of a scope, page by page, and then each change. A value that changes several times before
        the reader has taken it comes once, in its last version."""
        sent: dict[str, int] = {}
        with self.changes((tenant, scope), prefix) as changed:  # from now on: the pages may be older
            after, has_more = "", True
            while has_more:
                page, has_more = await store.values(tenant, scope, prefix=prefix, after=after, limit=_PAGE)
                sent.update((value.key, value.version) for value in page)
                after = page[-1].key if page else after
                batches = list(_batches(page))
                for batch in batches[:-1]:
                    yield batch
                yield ValueBatch(batches[-1].values, is_current=not has_more)
            while True:
                keys = await changed.take()
                for start in range(0, len(keys), _PAGE):
                    async for batch in _present(store, tenant, scope, keys[start : start + _PAGE], sent):
                        yield batch


async def _present(
    store: Values, tenant: str, scope: str, keys: list[str], sent: dict[str, int]
) -> AsyncGenerator[ValueBatch, None]:
    """Yields the present values of keys, and the keys without one, unless the reader has them; one batch at a time is
    in memory."""
    values: list[Value] = []
    deleted: list[str] = []
    size = 0
    for key in keys:
        value = await store.value(tenant, scope, key)
        if value is None:
            if sent.pop(key, 0):
                deleted.append(key)
            continue
        if value.version == sent.get(key):
            continue
        sent[key] = value.version
        if values and size + _size(value) > MAX_BATCH_BYTES:
            yield ValueBatch(tuple(values), tuple(deleted))
            values, deleted, size = [], [], 0
        values.append(value)
        size += _size(value)
    if values or deleted:
        yield ValueBatch(tuple(values), tuple(deleted))


def _batches(values: list[Value]) -> Iterator[ValueBatch]:
    """Divides values into batches of a bounded size, one at least."""
    batch: list[Value] = []
    size = 0
    for value in values:
        if batch and size + _size(value) > MAX_BATCH_BYTES:
            yield ValueBatch(tuple(batch))
            batch, size = [], 0
        batch.append(value)
        size += _size(value)
    yield ValueBatch(tuple(batch))


def _size(value: Value) -> int:
    return len(value.value_json.encode()) + _OVERHEAD
