"""Writes groups of publishes and reads snapshots, in one order over one connection.

A connection that is lost during a commit leaves the outcome unknown. Each group therefore writes a name of its own, and
the next group reads the last name to learn whether the group in doubt was committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from archon.errors import ArchonError
from archon_services.memory.domain.items import Publish, PublishOutcome, StoredItem
from archon_services.memory.domain.publishing import apply_publish
from archon_services.memory.store.postgres import publish_statements as sql
from archon_services.memory.store.postgres.publish_group import GroupRows, PublishGroup, read_arguments, read_item
from archon_services.memory.store.postgres.schema import PUBLISH_LOCK
from archon_services.postgres.connections import Connection, transaction

PURGE_INTERVAL: Final = 1.0
"""Seconds between two deletions of expired rows."""


@dataclass(eq=False, slots=True)
class PendingPublish:
    """A publish and the time at which it applies. `outcome` is set once it is durable or refused."""

    request: Publish
    now: float
    outcome: PublishOutcome | ArchonError | None = None


@dataclass(eq=False, slots=True)
class SnapshotRead:
    """A read of a scope's items, in order with the publishes."""

    tenant: str
    scope: str


class PublishWriter:
    """The `send` function of a GroupCommit. `on_late_commit` is called for a publish whose caller was told that the
    outcome is unknown, and that turns out to be committed."""

    def __init__(self, on_late_commit: Callable[[Publish, PublishOutcome], None]) -> None:
        self._on_late_commit = on_late_commit
        self._in_doubt: tuple[str, list[tuple[PendingPublish, PublishOutcome | ArchonError]]] | None = None
        self._purge_at = 0.0

    async def send(
        self, connection: Connection, group: Sequence[PendingPublish | SnapshotRead]
    ) -> Sequence[PublishOutcome | list[StoredItem] | ArchonError]:
        """Executes a group in order and returns one result per entry. Idempotent: repeated after a lost connection, it
        does not execute committed entries again."""
        results: list[PublishOutcome | list[StoredItem] | ArchonError] = []
        for _, part in groupby(group, key=lambda entry: entry if isinstance(entry, SnapshotRead) else None):
            publishes: list[PendingPublish] = []
            for entry in part:
                if isinstance(entry, SnapshotRead):
                    rows = await connection.fetch(sql.SCOPE_ITEMS, entry.tenant, entry.scope)
                    results.append([read_item(row) for row in rows])
                else:
                    publishes.append(entry)
            if any(publish.outcome is None for publish in publishes):
                await self._publish(connection, publishes)
            results += [publish.outcome for publish in publishes if publish.outcome is not None]
        return results

    async def _publish(self, connection: Connection, publishes: Sequence[PendingPublish]) -> None:
        async with transaction(connection):
            await connection.fetch(PUBLISH_LOCK)
            if self._in_doubt is not None:
                await self._resolve_doubt(connection, publishes)
            pending = [publish for publish in publishes if publish.outcome is None]
            if not pending:
                return
            now = max(publish.now for publish in pending)
            await self._purge(connection, now)
            group = await _read_group(connection, pending, now)
            outcomes = [(publish, _apply(group, publish)) for publish in pending]
            if group.has_changes:
                name = uuid.uuid4().hex
                await connection.fetch(sql.WRITE, name, *group.write_arguments())
                self._in_doubt = (name, outcomes)
        self._in_doubt = None
        for publish, outcome in outcomes:
            publish.outcome = outcome

    async def _resolve_doubt(self, connection: Connection, publishes: Sequence[PendingPublish]) -> None:
        """Learns the outcome of the group in doubt. The caller holds PUBLISH_LOCK, so its transaction has ended."""
        assert self._in_doubt is not None
        name, outcomes = self._in_doubt
        committed = await connection.fetchval(sql.LAST_GROUP) == name
        self._in_doubt = None
        for publish, outcome in outcomes if committed else ():
            publish.outcome = outcome
            if publish not in publishes and not isinstance(outcome, ArchonError):
                self._on_late_commit(publish.request, outcome)

    async def _purge(self, connection: Connection, now: float) -> None:
        if self._purge_at - PURGE_INTERVAL <= now < self._purge_at:  # a clock that was set back purges at once
            return
        for statement in sql.PURGE:
            await connection.fetch(statement, now)
        self._purge_at = now + PURGE_INTERVAL


async def _read_group(connection: Connection, pending: Sequence[PendingPublish], now: float) -> PublishGroup:
    requests, events, items = read_arguments([(publish.request, publish.now) for publish in pending])
    group = PublishGroup()
    if requests[0]:
        group.load_requests(await connection.fetch(sql.REQUESTS, *requests))
    if events[0]:
        group.load_events(await connection.fetch(sql.EVENTS, *events))
    group.load_items(await connection.fetch(sql.ITEMS, *items), now)
    return group


def _apply(group: PublishGroup, publish: PendingPublish) -> PublishOutcome | ArchonError:
    rows = GroupRows(group, publish.request.tenant, publish.request.scope)
    try:
        outcome = apply_publish(rows, publish.request, publish.now)
    except ArchonError as error:
        return error
    rows.merge()
    return outcome
