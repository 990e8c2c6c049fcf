"""Recalls a session's earlier answers: read once from the shared memory when a run is submitted, and journaled."""

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
from archon.wire import policy_to_proto, timestamp
from archon_services.orchestrator.convert.failures import failure_from_error, failure_to_proto
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.roles.selection import Participants

_log = logging.getLogger(__name__)

TIMEOUT: Final = 1.0
"""The most seconds that a submit waits for the shared memory."""

MAX_BYTES: Final = 4 * 1024 * 1024

POLL_INTERVAL: Final = 0.01
"""Seconds between two looks at the outbox, while earlier answers are being published."""


class SessionRecall:
    """Reads from the memory service at `target` (host:port), for at most `timeout` seconds.

    If the memory service is down, the run is created without the session's answers, and its first event records why.
    """

    def __init__(self, journal: Journal, target: str, *, timeout: float = TIMEOUT) -> None:
        self._journal = journal
        self._client = MemoryGraphClient(target)
        self._timeout = timeout

    async def close(self) -> None:
        """Closes the connection to the memory service. Idempotent."""
        await self._client.close()

    async def recall(
        self, submitted: run_pb2.Submitted, session_id: str, participants: Participants, order: Sequence[str]
    ) -> None:
        """Adds the session's answers that the run's readers may see to the first event, in `order` of their roles.

        Raises MessageTooLarge if they exceed 4 MiB.
        """
        readers = {role: role in participants.all_ancestors for role in participants.readers}
        left = context.current().remaining()
        try:
            async with asyncio.timeout(self._timeout if left is None else min(self._timeout, left / 2)):
                items_by_reader = await self._read_current(session_id, readers)
        except MessageTooLarge as error:
            raise _too_large(session_id, str(error)) from None
        except (ArchonError, TimeoutError) as raised:
            timed_out = DeadlineExceeded("the shared memory did not answer in time")
            reason = raised if isinstance(raised, ArchonError) else timed_out
            _log.warning("a run of session %s starts without its shared memory: %s", session_id, reason)
            submitted.session_context_failure.CopyFrom(failure_to_proto(failure_from_error(reason)))
            return
        submitted.session_context.extend(_by_item(session_id, items_by_reader, order))
        size = sum(answer.ByteSize() for answer in submitted.session_context)
        if size > MAX_BYTES:
            raise _too_large(session_id, f"its answers for the roles of this run have {size:,} bytes")

    async def _read_current(self, session_id: str, readers: dict[str, bool]) -> dict[str, list[MemoryItem]]:
        """Reads after the answers of the session's earlier runs are published, which callers may have seen already."""
        publishing = await self._journal.unpublished(session_id)
        items = await self._read(session_id, readers)  # first, since a service that is down publishes nothing
        if not publishing:
            return items
        try:
            async with asyncio.timeout(self._timeout / 2):
                while await self._journal.unpublished(session_id):  # noqa: ASYNC110 - another replica may publish
                    await asyncio.sleep(POLL_INTERVAL)
        except TimeoutError:
            _log.info("earlier answers of session %s are not published yet", session_id)
        return await self._read(session_id, readers)

    async def _read(self, session_id: str, readers: dict[str, bool]) -> dict[str, list[MemoryItem]]:
        """The items that each reader may see; `readers` tells who sees the items of all its ancestors."""
        items = {}
        for role, all_ancestors in readers.items():
            pull = self._client.pull_for_indirect if all_ancestors else self._client.pull_for
            items[role] = await pull(role, scope=session_id, timeout=self._timeout)
        return items


def _by_item(
    session_id: str, items_by_reader: dict[str, list[MemoryItem]], order: Sequence[str]
) -> list[run_pb2.SessionContext]:
    """Each answer once, with all its readers, in `order` of the roles that gave them."""
    answers: dict[tuple[str, int], run_pb2.SessionContext] = {}
    for reader, items in items_by_reader.items():
        for item in items:
            key = (item.source_id, item.version)
            if key not in answers:
                answers[key] = run_pb2.SessionContext(item=_context_item(session_id, item))
            answers[key].readers.append(reader)
    rank = {role: number for number, role in enumerate(order)}
    return sorted(answers.values(), key=lambda answer: rank.get(answer.item.ref.role, len(rank)))


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


def _too_large(session_id: str, reason: str) -> MessageTooLarge:
    return MessageTooLarge(
        f"the shared memory of session {session_id} is too large for one run: {reason}, at most {MAX_BYTES:,} are "
        "allowed; clear it, or name another session"
    )
