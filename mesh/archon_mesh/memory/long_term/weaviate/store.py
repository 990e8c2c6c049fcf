"""Long-term memory in Weaviate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from typing_extensions import override

from archon.errors import InvalidArgument, Unavailable
from archon.failure_kinds import STORAGE
from archon.memory.long_term.entry import LongTermEntry, LongTermStats
from archon_mesh.memory.long_term.port import MAX_BATCH, NO_FILTERS, Change, Filters, LongTermStore, StoredVector
from archon_mesh.memory.long_term.weaviate.connection import Address, Connection
from archon_mesh.memory.long_term.weaviate.objects import (
    NO_EMBEDDER,
    label_filter,
    to_entry,
    to_filter,
    to_properties,
    vector_name,
)

T = TypeVar("T")

COLLECTION: Final = "ArchonLongTermMemory"

_PARALLEL: Final = 8
"""Objects that are changed at the same time."""

_MAX_DELETED: Final = 1_000
"""Rounds of a deletion, each of up to 10,000 objects, which is Weaviate's default limit."""

_ID_BATCH: Final = 100


class WeaviateLongTermStore(LongTermStore):
    """Entries in a collection of Weaviate with a native tenant for each tenant, and named vectors for each embedder.

    Needs the extra `weaviate`. An entry's id is its object's id, so that a retry never stores it twice. Counters are
    read and written back: of two concurrent changes of an entry, one may not be counted. Weaviate replaces an object to
    change it: a query or a count at that moment may miss the entry, or count it twice. It removes forgotten texts from
    its files when it compacts them.
    """

    def __init__(self, url: str, *, collection: str = COLLECTION, api_key: str | None = None) -> None:
        """`url` is `weaviate://HOST:PORT` (`Address`). Raises InvalidArgument if it is malformed."""
        self._connection = Connection(Address(url), collection, api_key)

    @override
    async def open(self) -> None:
        async def nothing(_: Any) -> None:
            pass

        await self._connection.run(nothing)

    @override
    async def close(self) -> None:
        await self._connection.close()

    @override
    async def insert(
        self, tenant: str, entries: Sequence[LongTermEntry], vectors: Sequence[StoredVector | None]
    ) -> int:
        async def work(collection: Any) -> int:
            from weaviate.classes.data import DataObject

            for name in {vector_name(stored.embedder) for stored in vectors if stored is not None}:
                await self._connection.create_vectors(collection, name)
            target = await self._connection.for_writing(collection, tenant)
            existing = {str(found.uuid) for found in await _by_ids(target, [entry.id for entry in entries])}
            objects: dict[str, Any] = {}
            for entry, vector in zip(entries, vectors, strict=True):
                stored = None if entry.archived else vector
                if entry.id not in existing and entry.id not in objects:
                    objects[entry.id] = DataObject(
                        to_properties(tenant, entry, stored.embedder if stored else ""),
                        uuid=entry.id,
                        vector={vector_name(stored.embedder): list(stored.vector)} if stored else None,
                    )
            if objects:
                result = await target.data.insert_many(list(objects.values()))
                if result.has_errors:
                    raise _failed("store", next(iter(result.errors.values())).message)
            return len(objects)

        return await self._connection.run(work)

    @override
    async def embed(self, tenant: str, vectors: Mapping[str, StoredVector]) -> None:
        async def work(collection: Any) -> None:
            for name in {vector_name(stored.embedder) for stored in vectors.values()}:
                await self._connection.create_vectors(collection, name)
            target = await self._connection.of_tenant(collection, tenant)
            if target is None:
                return
            found = await _by_ids(target, list(vectors))

            async def update(uuid: str) -> None:
                stored = vectors[uuid]
                await target.data.update(
                    uuid,
                    properties={"embedder": stored.embedder},
                    vector={vector_name(stored.embedder): list(stored.vector)},
                )

            await _in_parallel(update, [str(o.uuid) for o in found if not o.properties["archived"]])

        await self._connection.run(work)

    @override
    async def unembedded(self, embedder: str, limit: int) -> list[tuple[str, LongTermEntry]]:
        async def work(collection: Any) -> list[tuple[str, LongTermEntry]]:
            from weaviate.classes.query import Filter

            found: list[tuple[str, LongTermEntry]] = []
            wanted = to_filter(Filters()) & Filter.by_property("embedder").not_equal(embedder)
            for name in await collection.tenants.get():
                target = collection.with_tenant(name)
                objects = (await target.query.fetch_objects(limit=limit - len(found), filters=wanted)).objects
                for each in objects:
                    found += [(each.properties["tenant"], entry) for entry in await _intact(target, [each])]
                if len(found) >= limit:
                    break
            return found

        return await self._connection.run(work)

    @override
    async def get(self, tenant: str, entry_ids: Sequence[str]) -> list[LongTermEntry]:
        async def work(target: Any) -> list[LongTermEntry]:
            objects = await _by_ids(target, entry_ids)
            return await _intact(target, [each for each in objects if not each.properties["damaged"]])

        return await self._of_tenant(tenant, work, [])

    @override
    async def nearest(
        self, tenant: str, query: StoredVector, limit: int, filters: Filters = NO_FILTERS
    ) -> list[tuple[LongTermEntry, float]]:
        async def work(target: Any) -> list[tuple[LongTermEntry, float]]:
            from weaviate.classes.query import Filter, MetadataQuery

            name = vector_name(query.embedder)
            if not await self._connection.has_vectors(target, name):
                return []
            result = await target.query.near_vector(
                list(query.vector),
                target_vector=name,
                limit=limit,
                filters=to_filter(filters) & Filter.by_property("embedder").equal(query.embedder),
                return_metadata=MetadataQuery(distance=True),
            )
            entries = {entry.id: entry for entry in await _intact(target, result.objects)}
            return [
                (entries[str(each.uuid)], 1.0 - float(each.metadata.distance))
                for each in result.objects
                if str(each.uuid) in entries
            ]

        return await self._of_tenant(tenant, work, [])

    @override
    async def with_words(
        self, tenant: str, words: Sequence[str], limit: int, filters: Filters = NO_FILTERS
    ) -> list[LongTermEntry]:
        async def work(target: Any) -> list[LongTermEntry]:
            result = await target.query.bm25(
                " ".join(words), query_properties=["content"], limit=limit, filters=to_filter(filters)
            )
            return await _intact(target, result.objects)

        return await self._of_tenant(tenant, work, []) if words else []

    @override
    async def recent(self, tenant: str, limit: int, filters: Filters = NO_FILTERS) -> list[LongTermEntry]:
        return await self._sorted(tenant, "create_time", False, limit, filters)

    @override
    async def least_valuable(self, tenant: str, limit: int, *, archived: bool) -> list[LongTermEntry]:
        from weaviate.classes.query import Filter

        only = Filter.by_property("archived").equal(archived)
        return await self._sorted(tenant, "used_or_created", True, limit, Filters(with_archived=True), only)

    @override
    async def page(self, tenant: str, after: str, limit: int) -> list[LongTermEntry]:
        async def work(target: Any) -> list[LongTermEntry]:
            last = after or None
            while objects := (await target.query.fetch_objects(limit=limit, after=last)).objects:
                last = str(objects[-1].uuid)
                entries = await _intact(target, [each for each in objects if not each.properties["damaged"]])
                if entries:
                    return entries
            return []

        return await self._of_tenant(tenant, work, [])

    @override
    async def change(self, tenant: str, changes: Sequence[Change]) -> int:
        async def work(target: Any) -> int:
            found = {str(each.uuid): each for each in await _by_ids(target, [item.entry_id for item in changes])}
            known = [c for c in changes if c.entry_id in found and not found[c.entry_id].properties["damaged"]]

            async def apply(item: Change) -> None:
                await target.data.update(item.entry_id, properties=_changed(found[item.entry_id].properties, item))

            await _in_parallel(apply, known)
            return len(known)

        return await self._of_tenant(tenant, work, 0)

    @override
    async def delete(self, tenant: str, entry_ids: Sequence[str]) -> int:
        async def work(target: Any) -> int:
            from weaviate.classes.query import Filter

            if not entry_ids:
                return 0
            result = await target.data.delete_many(Filter.by_id().contains_any(list(entry_ids)))
            if result.failed:
                raise _failed("delete", f"{result.failed} entries")
            return int(result.successful)

        return await self._of_tenant(tenant, work, 0)

    @override
    async def forget(self, tenant: str, metadata: Mapping[str, str]) -> int:
        if not metadata:
            raise InvalidArgument("forget needs at least one pair of metadata")

        async def work(target: Any) -> int:
            deleted = 0
            for _ in range(_MAX_DELETED):
                result = await target.data.delete_many(label_filter(metadata))
                deleted += int(result.successful)
                if result.failed:
                    raise _failed("forget", f"{result.failed} entries")
                if not result.successful:
                    break
            return deleted

        return await self._of_tenant(tenant, work, 0)

    @override
    async def damaged(self, tenant: str, limit: int = MAX_BATCH) -> list[str]:
        async def work(target: Any) -> list[str]:
            from weaviate.classes.query import Filter

            wanted = Filter.by_property("damaged").equal(True)
            objects = (await target.query.fetch_objects(limit=limit, filters=wanted)).objects
            return sorted(str(each.uuid) for each in objects)

        return await self._of_tenant(tenant, work, [])

    @override
    async def stats(self, tenant: str) -> LongTermStats:
        async def work(target: Any) -> LongTermStats:
            from weaviate.classes.query import Filter, Metrics

            intact = Filter.by_property("damaged").equal(False)
            active = intact & Filter.by_property("archived").equal(False)
            total = await target.aggregate.over_all(return_metrics=Metrics("size").integer(sum_=True))

            async def count(wanted: Any) -> int:
                return int((await target.aggregate.over_all(filters=wanted)).total_count or 0)

            return LongTermStats(
                active=await count(active),
                archived=await count(intact & Filter.by_property("archived").equal(True)),
                pending=await count(active & Filter.by_property("embedder").equal(NO_EMBEDDER)),
                damaged=await count(Filter.by_property("damaged").equal(True)),
                bytes=int(total.properties["size"].sum_ or 0),
            )

        return await self._of_tenant(tenant, work, LongTermStats())

    @override
    async def note(self, key: str) -> str | None:
        return None

    @override
    async def set_note(self, key: str, text: str) -> None:
        pass  # a collection has no place for it: an embedder is measured again at each opening

    @override
    async def tenants(self) -> list[str]:
        async def work(collection: Any) -> list[str]:
            found: set[str] = set()
            for name in await collection.tenants.get():
                objects = (await collection.with_tenant(name).query.fetch_objects(limit=1)).objects
                found.update(str(each.properties["tenant"]) for each in objects)
            return sorted(found)

        return await self._connection.run(work)

    async def _of_tenant(self, tenant: str, work: Callable[[Any], Awaitable[T]], absent: T) -> T:
        """Calls `work` with the tenant's collection; returns `absent` if the tenant has no entries."""

        async def with_collection(collection: Any) -> T:
            target = await self._connection.of_tenant(collection, tenant)
            return absent if target is None else await work(target)

        return await self._connection.run(with_collection)

    async def _sorted(
        self, tenant: str, key: str, ascending: bool, limit: int, filters: Filters, only: Any = None
    ) -> list[LongTermEntry]:
        async def work(target: Any) -> list[LongTermEntry]:
            from weaviate.classes.query import Sort

            wanted = to_filter(filters) if only is None else to_filter(filters) & only
            order = Sort.by_property(key, ascending=ascending)
            result = await target.query.fetch_objects(limit=limit, filters=wanted, sort=order)
            return await _intact(target, result.objects)

        return await self._of_tenant(tenant, work, [])


async def _by_ids(target: Any, entry_ids: Sequence[str]) -> list[Any]:
    """Returns the objects that exist, damaged ones included."""
    found: list[Any] = []
    for start in range(0, len(entry_ids), _ID_BATCH):
        batch = list(dict.fromkeys(entry_ids[start : start + _ID_BATCH]))
        found += (await target.query.fetch_objects_by_ids(batch, limit=len(batch))).objects
    return found


async def _intact(target: Any, objects: Iterable[Any]) -> list[LongTermEntry]:
    """Converts objects; sets those aside that are damaged."""
    intact: list[LongTermEntry] = []
    for each in objects:
        entry = to_entry(each)
        if entry is not None:
            intact.append(entry)
        else:
            await target.data.update(str(each.uuid), properties={"damaged": True})
    return intact


def _changed(values: Mapping[str, Any], item: Change) -> dict[str, Any]:
    """Returns the properties that a change sets."""
    changed: dict[str, Any] = {
        "use_count": int(values["use_count"]) + item.uses,
        "useful": int(values["useful"]) + item.useful,
        "not_useful": int(values["not_useful"]) + item.not_useful,
    }
    if item.used_at is not None:
        changed["last_used"] = changed["used_or_created"] = max(item.used_at, values.get("last_used") or 0.0)
    if item.importance is not None:
        changed["importance"] = item.importance
    if item.archived is not None and item.archived != values["archived"]:
        changed |= {"archived": item.archived, "embedder": NO_EMBEDDER}
    return changed


async def _in_parallel(work: Callable[[Any], Awaitable[None]], items: Sequence[Any]) -> None:
    """Calls `work` for all items, a few at a time. Raises the first error when its group has ended."""
    for start in range(0, len(items), _PARALLEL):
        group = items[start : start + _PARALLEL]
        for outcome in await asyncio.gather(*map(work, group), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


def _failed(operation: str, reason: str) -> Unavailable:
    return Unavailable(f"Weaviate could not {operation}: {reason[:300]}", retry_delay=1.0, kind=STORAGE)
