"""Client of long-term memory, with the methods of the local one."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from archon import errors
from archon.api.memory.v1 import long_term_memory_service_pb2 as pb
from archon.api.memory.v1 import long_term_memory_service_pb2_grpc
from archon.channel import Option, connect
from archon.memory.convert import text
from archon.memory.long_term import entry as limits
from archon.memory.long_term.context import (
    NO_TEMPLATE,
    CountTokens,
    RetrievedContext,
    Template,
    assemble,
    build_query,
    estimate_tokens,
)
from archon.memory.long_term.contradiction import Contradiction, Keep, contradictions, resolve_contradiction
from archon.memory.long_term.convert import (
    entry_from_proto,
    entry_to_proto,
    source_from_proto,
    stats_from_proto,
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
from archon.pages import pages
from archon.security.credentials import Credentials
from archon.security.peer import MEMORY

CALL_TIMEOUT: Final = 10.0
"""Seconds that a call may take by default."""

LONG_TIMEOUT: Final = 60.0
"""Seconds of a call that reads or writes many entries."""

_PAGE: Final = 200
_RESTORED: Final = 32
"""Entries of one request that restores: at 64 KiB each, and their metadata, they fit in a message."""


class LongTermMemoryClient:
    """A connection to the memory service at `host:port`. The service knows the tenant from the caller's credentials.

    It connects at the first call and may be shared by tasks of one event loop. Close it, or use it as an async context
    manager. Calls raise Unavailable and DeadlineExceeded if the service or its store is unreachable, InvalidArgument,
    and Unimplemented if the service has no store for long-term memory. `metadata` is added to entries that are stored.
    """

    def __init__(
        self,
        target: str,
        *,
        metadata: Mapping[str, str] | None = None,
        options: Sequence[Option] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._metadata = limits.check_metadata(metadata)
        self._channel = connect(target, options, peer=MEMORY, credentials=credentials)
        self._stub = long_term_memory_service_pb2_grpc.LongTermMemoryServiceStub(self._channel)

    async def __aenter__(self) -> LongTermMemoryClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        await self._channel.close()

    async def store(
        self,
        content: str,
        metadata: Mapping[str, str] | None = None,
        importance: float = DEFAULT_IMPORTANCE,
        *,
        request_id: str = "",
        timeout: float = CALL_TIMEOUT,
    ) -> str:
        """Stores a text durably and returns its id. A call that is repeated with the same `request_id` stores once.

        Raises ResourceExhausted if the text is too large or the outbox is full, AlreadyExists (REQUEST_ID_REUSED).
        """
        request = pb.StoreEntryRequest(
            content=limits.check_content(content),
            metadata=limits.check_metadata({**self._metadata, **(metadata or {})}),
            # An id in any case: gRPC repeats calls.
            request_id=text(request_id, "request_id") or str(uuid.uuid4()),
            importance=limits.check_importance(importance),
        )
        return (await self._stub.StoreEntry(request, timeout=timeout)).entry.entry_id

    async def query(
        self,
        query_text: str,
        limit: int = DEFAULT_LIMIT,
        threshold: float | None = None,
        filters: Mapping[str, str] | None = None,
        *,
        with_archived: bool = False,
        timeout: float = CALL_TIMEOUT,
    ) -> list[FoundEntry]:
        """Returns the entries that answer a query, best first, each with a score from 0 to 1.

        Without a threshold, 0.7 is lowered step by step while nothing reaches it; then follow the best by words and the
        most recent entries. A threshold that is given is a hard limit.
        """
        request = pb.SearchEntriesRequest(
            query=limits.check_query(query_text),
            limit=limits.check_limit(limit),
            threshold=None if threshold is None else limits.check_threshold(threshold),
            filter=limits.check_metadata(filters, "filters"),
            with_archived=with_archived,
        )
        response = await self._stub.SearchEntries(request, timeout=timeout)
        source = source_from_proto(response.source)
        return [FoundEntry(entry_from_proto(message), message.score, source) for message in response.entries]

    async def get(self, entry_id: str, *, timeout: float = CALL_TIMEOUT) -> LongTermEntry | None:
        """Returns an entry, or None if there is none with this id."""
        try:
            response = await self._stub.GetEntry(
                pb.GetEntryRequest(entry_id=text(entry_id, "entry_id")), timeout=timeout
            )
        except errors.NotFound:
            return None
        return entry_from_proto(response.entry)

    async def recent(
        self,
        limit: int = MAX_LIMIT,
        filters: Mapping[str, str] | None = None,
        *,
        with_archived: bool = False,
        timeout: float = CALL_TIMEOUT,
    ) -> list[LongTermEntry]:
        """Returns the newest entries, newest first."""
        request = pb.ListRecentEntriesRequest(
            limit=limits.check_limit(limit, 1_000),
            filter=limits.check_metadata(filters, "filters"),
            with_archived=with_archived,
        )
        response = await self._stub.ListRecentEntries(request, timeout=timeout)
        return [entry_from_proto(message) for message in response.entries]

    async def delete(self, entry_id: str, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Deletes an entry; returns whether it existed."""
        request = pb.DeleteEntryRequest(entry_id=text(entry_id, "entry_id"))
        return (await self._stub.DeleteEntry(request, timeout=timeout)).deleted

    async def forget(
        self, *, user: str | None = None, session: str | None = None, timeout: float = LONG_TIMEOUT
    ) -> int:
        """Deletes everything of a user, or of a session, or of a user in a session; returns the number of entries.

        Raises InvalidArgument without a user and a session, and Unavailable, after which a part may be left.
        """
        request = pb.ForgetEntriesRequest(user=text(user or "", "user"), session=text(session or "", "session"))
        return (await self._stub.ForgetEntries(request, timeout=timeout)).deleted

    async def feedback(self, entry_id: str, useful: bool, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Counts whether an entry was useful, which weighs in later queries; returns whether the entry exists."""
        try:
            await self._stub.RateEntry(
                pb.RateEntryRequest(entry_id=text(entry_id, "entry_id"), useful=useful), timeout=timeout
            )
        except errors.NotFound:
            return False
        return True

    async def set_importance(self, entry_id: str, importance: float, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Sets the importance of an entry, from 0 to 1; returns whether the entry exists."""
        importance = limits.check_importance(importance)
        return await self._update(
            pb.UpdateEntryRequest(entry_id=text(entry_id, "entry_id"), importance=importance), timeout
        )

    async def archive(self, entry_id: str, archived: bool = True, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Moves an entry to the archive, or back; returns whether the entry exists."""
        return await self._update(
            pb.UpdateEntryRequest(entry_id=text(entry_id, "entry_id"), archived=archived), timeout
        )

    async def contradictions(self, filters: Mapping[str, str] | None = None) -> list[Contradiction]:
        """Returns the open contradictions, the newest first."""
        return await contradictions(self, filters)

    async def resolve_contradiction(self, entry_id: str, keep: Keep = Keep.BOTH, *, merged: str = "") -> list[str]:
        """Carries out the owner's decision: keeps the newer entry, the earlier ones or all, or stores `merged` in place
        of all. Returns the ids of the entries that are left. Raises NotFound, FailedPrecondition if the entry has no
        open contradiction."""
        return await resolve_contradiction(self, entry_id, keep, merged)

    async def stats(self, *, timeout: float = CALL_TIMEOUT) -> LongTermStats:
        """Returns counts of entries."""
        return stats_from_proto((await self._stub.GetStats(pb.GetStatsRequest(), timeout=timeout)).stats)

    async def damaged(self, *, timeout: float = CALL_TIMEOUT) -> list[str]:
        """Returns the ids of entries that were set aside because their checksum is wrong."""
        return list((await self._stub.GetStats(pb.GetStatsRequest(), timeout=timeout)).damaged_entry_ids)

    async def summarize_recent(
        self,
        max_memories: int = MAX_MEMORIES,
        *,
        model: Summarize | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> str:
        """Returns a summary of the newest entries: by the model, or without one an extract, the same for the same
        entries. Raises the model's errors."""
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

        History gets 50 % of the budget, memories 30 %, the template 20 %.
        """
        query = build_query(limits.check_query(current_query), history)
        found = await self.query(query, limit, filters=filters)
        return assemble(
            found, token_budget, history=history, template=template, count_tokens=count_tokens, now=time.time()
        )

    async def export_to(self, file: Path) -> int:
        """Writes all entries, archived ones included, to a file; returns their number."""
        return await write_entries(file, self._pages())

    async def import_from(self, file: Path) -> int:
        """Stores the entries of an export; ids that exist stay as they are. Returns the number of new entries.

        Raises NotFound, InvalidArgument if the file is not an export, and DataLoss, before anything is stored, if it
        was changed.
        """
        stored = 0
        async for batch in read_entries(file):
            for start in range(0, len(batch), _RESTORED):
                request = pb.RestoreEntriesRequest(
                    entries=[entry_to_proto(entry) for entry in batch[start : start + _RESTORED]]
                )
                stored += (await self._stub.RestoreEntries(request, timeout=LONG_TIMEOUT)).stored
        return stored

    async def _update(self, request: pb.UpdateEntryRequest, timeout: float) -> bool:
        try:
            await self._stub.UpdateEntry(request, timeout=timeout)
        except errors.NotFound:
            return False
        return True

    async def _pages(self) -> AsyncIterator[list[LongTermEntry]]:
        async for page in pages(self._stub.ListEntries, pb.ListEntriesRequest(page_size=_PAGE), timeout=LONG_TIMEOUT):
            yield [entry_from_proto(message) for message in page.entries]
