"""What a session knew before a run: pulled once from the shared memory as the run is taken on, and journaled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from archon import context
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, DeadlineExceeded, MessageTooLarge
from archon.memory import MemoryGraphClient, MemoryItem
from archon.wire import policy_to_proto
from archon_services.orchestrator.convert.failures import failure_from_error, failure_to_proto
from archon_services.orchestrator.convert.write import timestamp
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.roles.selection import Participants

_log = logging.getLogger(__name__)

WITHIN: Final = 1.0
"""Seconds that a submit waits for the shared memory at most."""

MAX_BYTES: Final = 4 * 1024 * 1024
SETTLE: Final = 0.01


class SessionRecall:
    """Asks the memory service at `target` (host:port). A memory service that is down stops no run: it goes on without,
    and its first event says why."""

    def __init__(self, journal: Journal, target: str, *, within: float = WITHIN) -> None:
        self._journal = journal
        self._client = MemoryGraphClient(target)
        self._within = within

    async def close(self) -> None:
        """Idempotent."""
        await self._client.close()

    async def recall(
        self, said: run_pb2.Submitted, session_id: str, chosen: Participants, order: Sequence[str]
    ) -> None:
        """Writes what the run's readers may see of the session into its first event, in `order` of the roles that said
        it. Raises MessageTooLarge where that is more than 4 MiB."""
        readers = {role: role in chosen.all_ancestors for role in chosen.readers}
        left = context.current().remaining()
        try:
            async with asyncio.timeout(self._within if left is None else min(self._within, left / 2)):
                pulled = await self._settled(session_id, readers)
        except MessageTooLarge as error:
            raise _too_large(session_id, str(error)) from None
        except (ArchonError, TimeoutError) as error:
            known = error if isinstance(error, ArchonError) else DeadlineExceeded("the shared memory didn't answer")
            _log.warning("a run of session %s goes on without its shared memory: %s", session_id, known)
            said.session_context_failure.CopyFrom(failure_to_proto(failure_from_error(known)))
            return
        said.session_context.extend(_by_item(session_id, pulled, order))
        size = sum(one.ByteSize() for one in said.session_context)
        if size > MAX_BYTES:
            raise _too_large(session_id, f"what the roles of this run may see of it are {size:,} bytes")

    async def _settled(self, session_id: str, readers: dict[str, bool]) -> dict[str, list[MemoryItem]]:
        """As of after the session's earlier runs: an answer that a caller has seen may still be on its way there."""
        on_its_way = await self._journal.unpublished(session_id)
        pulled = await self._pull(session_id, readers)  # at once, too: where nobody is there, nothing will settle
        if not on_its_way:
            return pulled
        try:
            async with asyncio.timeout(self._within / 2):
                while await self._journal.unpublished(session_id):  # noqa: ASYNC110 - others publish, too
                    await asyncio.sleep(SETTLE)
        except TimeoutError:
            _log.info("earlier answers of session %s are still on their way to the shared memory", session_id)
        return await self._pull(session_id, readers)

    async def _pull(self, session_id: str, readers: dict[str, bool]) -> dict[str, list[MemoryItem]]:
        pulled = {}
        for role, deep in readers.items():
            pull = self._client.pull_for_indirect if deep else self._client.pull_for
            pulled[role] = await pull(role, scope=session_id, timeout=self._within)
        return pulled


def _by_item(
    session_id: str, pulled: dict[str, list[MemoryItem]], order: Sequence[str]
) -> list[run_pb2.SessionContext]:
    """Each answer once, with all who are handed it, in `order` of their roles."""
    found: dict[tuple[str, int], run_pb2.SessionContext] = {}
    for reader, items in pulled.items():
        for item in items:
            key = (item.source_id, item.version)
            if key not in found:
                found[key] = run_pb2.SessionContext(item=_context_item(session_id, item))
            found[key].readers.append(reader)
    rank = {role: number for number, role in enumerate(order)}
    return sorted(found.values(), key=lambda one: rank.get(one.item.ref.role, len(rank)))


def _context_item(scope: str, item: MemoryItem) -> common_pb2.ContextItem:
    return common_pb2.ContextItem(
        ref=common_pb2.MemoryRef(
            scope=scope, role=item.source_id, version=item.version, run_id=item.run_id, seq=item.seq
        ),
        parts=[common_pb2.Part(text=item.content)],
        publish_time=timestamp(item.timestamp),
        policy=policy_to_proto(item.policy),
        metadata=item.metadata,
    )


def _too_large(session_id: str, why: str) -> MessageTooLarge:
    return MessageTooLarge(
        f"session {session_id} remembers too much for one run: {why}, at most {MAX_BYTES:,} are handed over; "
        "clear it, or name another session"
    )
