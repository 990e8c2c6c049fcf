"""LongTermMemoryService: decodes requests, calls the memory, encodes responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from archon import context
from archon.api.memory.v1 import long_term_memory_service_pb2 as pb
from archon.api.memory.v1 import memory_pb2
from archon.errors import InvalidArgument, NotFound
from archon.memory.long_term.convert import entry_from_proto, entry_to_proto, source_to_proto, stats_to_proto
from archon.memory.long_term.entry import (
    DEFAULT_IMPORTANCE,
    DEFAULT_LIMIT,
    LongTermEntry,
    check_content,
    check_importance,
    check_metadata,
    checksum_of,
)
from archon.wire import MAX_CHECKED_BYTES
from archon_mesh.memory.long_term import LongTermMemory
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.memory.api import long_term_validation as validation

_LIST: Final = "long-term entries"


class LongTermMemoryServicer:
    """Implements LongTermMemoryService over a memory. The proto documents the errors of each call."""

    def __init__(self, memory: LongTermMemory) -> None:
        self._memory = memory

    async def StoreEntry(self, request: pb.StoreEntryRequest, _: Any) -> pb.StoreEntryResponse:
        """Stores a text, durable on return."""
        validation.request_id(request.request_id)
        metadata = dict(request.metadata)
        importance = request.importance if request.HasField("importance") else DEFAULT_IMPORTANCE
        entry_id = await self._of_tenant().store(request.content, metadata, importance, request_id=request.request_id)
        entry = memory_pb2.LongTermEntry(
            entry_id=entry_id, content=request.content, metadata=metadata, importance=importance
        )
        return pb.StoreEntryResponse(entry=entry)

    async def SearchEntries(self, request: pb.SearchEntriesRequest, _: Any) -> pb.SearchEntriesResponse:
        """Returns the entries that answer a query."""
        result = await self._of_tenant().search(
            request.query,
            request.limit or DEFAULT_LIMIT,
            request.threshold if request.HasField("threshold") else None,
            dict(request.filter),
            with_archived=request.with_archived,
        )
        return pb.SearchEntriesResponse(
            entries=_bounded(entry_to_proto(found.entry, found.score) for found in result.found),
            threshold=result.threshold,
            source=source_to_proto(result.source),
        )

    async def GetEntry(self, request: pb.GetEntryRequest, _: Any) -> pb.GetEntryResponse:
        """Returns an entry."""
        entry = await self._of_tenant().get(validation.entry_id(request.entry_id))
        if entry is None:
            raise _unknown(request.entry_id)
        return pb.GetEntryResponse(entry=entry_to_proto(entry))

    async def ListEntries(self, request: pb.ListEntriesRequest, _: Any) -> pb.ListEntriesResponse:
        """Returns a page of entries, which is shorter than requested if the entries are large."""
        tenant = context.current().tenant
        after = read_token(request.page_token, _LIST, tenant, like="") or ""
        size = page_size(request.page_size)
        page = await self._of_tenant().page(after, size)
        entries = list(_bounded(map(entry_to_proto, page)))
        token = make_token(entries[-1].entry_id, _LIST, tenant) if entries else ""
        return pb.ListEntriesResponse(entries=entries, next_page_token=token)

    async def ListRecentEntries(self, request: pb.ListRecentEntriesRequest, _: Any) -> pb.ListRecentEntriesResponse:
        """Returns the newest entries."""
        limit = page_size(request.limit)
        entries = await self._of_tenant().recent(limit, dict(request.filter), with_archived=request.with_archived)
        return pb.ListRecentEntriesResponse(entries=_bounded(map(entry_to_proto, entries)))

    async def RateEntry(self, request: pb.RateEntryRequest, _: Any) -> pb.RateEntryResponse:
        """Counts feedback, durable on return."""
        if not await self._of_tenant().feedback(validation.entry_id(request.entry_id), request.useful):
            raise _unknown(request.entry_id)
        return pb.RateEntryResponse()

    async def UpdateEntry(self, request: pb.UpdateEntryRequest, _: Any) -> pb.UpdateEntryResponse:
        """Changes importance and archive, durable on return."""
        entry_id = validation.entry_id(request.entry_id)
        memory = self._of_tenant()
        if not request.HasField("importance") and not request.HasField("archived"):
            raise InvalidArgument("set importance or archived")
        known = True
        if request.HasField("importance"):
            known = await memory.set_importance(entry_id, request.importance)
        if known and request.HasField("archived"):
            known = await memory.archive(entry_id, request.archived)
        if not known:
            raise _unknown(request.entry_id)
        return pb.UpdateEntryResponse()

    async def DeleteEntry(self, request: pb.DeleteEntryRequest, _: Any) -> pb.DeleteEntryResponse:
        """Deletes an entry, durable on return."""
        deleted = await self._of_tenant().delete(validation.entry_id(request.entry_id))
        return pb.DeleteEntryResponse(deleted=deleted)

    async def ForgetEntries(self, request: pb.ForgetEntriesRequest, _: Any) -> pb.ForgetEntriesResponse:
        """Deletes everything of a user or a session."""
        deleted = await self._of_tenant().forget(user=request.user or None, session=request.session or None)
        return pb.ForgetEntriesResponse(deleted=deleted)

    async def RestoreEntries(self, request: pb.RestoreEntriesRequest, _: Any) -> pb.RestoreEntriesResponse:
        """Stores entries of an export, durable on return."""
        entries = [_restorable(message) for message in validation.restored(request).entries]
        return pb.RestoreEntriesResponse(stored=await self._of_tenant().restore(entries) if entries else 0)

    async def GetStats(self, _: pb.GetStatsRequest, __: Any) -> pb.GetStatsResponse:
        """Returns counts of entries."""
        memory = self._of_tenant()
        stats = await memory.stats()
        damaged = await memory.damaged() if stats.damaged else []
        return pb.GetStatsResponse(stats=stats_to_proto(stats), damaged_entry_ids=damaged)

    def _of_tenant(self) -> LongTermMemory:
        return self._memory.of_tenant(context.current().tenant)


def _restorable(message: memory_pb2.LongTermEntry) -> LongTermEntry:
    entry = entry_from_proto(message)
    check_content(entry.content)
    check_metadata(entry.metadata)
    check_importance(entry.importance)
    if entry.checksum != checksum_of(entry.id, entry.content, entry.create_time, entry.metadata):
        raise InvalidArgument(f"the checksum of the entry {entry.id!r} is wrong")
    return entry


def _bounded(messages: Iterable[memory_pb2.LongTermEntry]) -> Iterator[memory_pb2.LongTermEntry]:
    """Yields messages until the next one would make the response too large."""
    size = 0
    for message in messages:
        size += message.ByteSize() + 8
        if size > MAX_CHECKED_BYTES:
            return
        yield message


def _unknown(entry_id: str) -> NotFound:
    return NotFound(f"there is no entry {entry_id!r}", metadata={"entry_id": entry_id})
