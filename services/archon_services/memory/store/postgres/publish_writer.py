"""Publishes and snapshots in one order, over one connection. A connection that died in the middle leaves nothing open:
each group writes its own name, and the next one reads whose was the last."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from archon.errors import ArchonError
from archon_services.memory.domain import publishing
from archon_services.memory.store.port import Publish, Published, StoredItem
from archon_services.memory.store.postgres import statements as sql
from archon_services.memory.store.postgres.group import Group, Rows, asked, read_item
from archon_services.postgres.connections import Connection, transaction

PURGE_INTERVAL: Final = 1.0
"""Seconds between two looks for what is over."""

Outcome = tuple[list[Published], list[StoredItem]]


@dataclass(eq=False, slots=True)
class Publishing:
    """A publish at its time. `outcome` once it is known to be durable, or refused for good."""

    given: Publish
    now: float
    outcome: Outcome | ArchonError | None = None


@dataclass(eq=False, slots=True)
class Snapshot:
    """What stands in a scope, asked for among the publishes."""

    tenant: str
    scope: str


class Sender:
    """`found` hears of publishes whose callers were told that nobody knows, and that turn out to be durable."""

    def __init__(self, found: Callable[[Publish, Outcome], None]) -> None:
        self._found = found
        self._doubt: tuple[str, list[tuple[Publishing, Outcome | ArchonError]]] | None = None
        self._purge_at = 0.0

    async def send(
        self, connection: Connection, work: Sequence[Publishing | Snapshot]
    ) -> Sequence[Outcome | list[StoredItem] | ArchonError]:
        """In the order given. Sent again after a lost connection, what was committed is not done again."""
        results: list[Outcome | list[StoredItem] | ArchonError] = []
        for _, part in groupby(work, key=lambda one: one if isinstance(one, Snapshot) else None):
            publishes: list[Publishing] = []
            for one in part:
                if isinstance(one, Snapshot):
                    rows = await connection.fetch(sql.IN_SCOPE, one.tenant, one.scope)
                    results.append([read_item(row) for row in rows])
                else:
                    publishes.append(one)
            if any(one.outcome is None for one in publishes):
                await self._publish(connection, publishes)
            results += [one.outcome for one in publishes if one.outcome is not None]
        return results

    async def _publish(self, connection: Connection, publishes: Sequence[Publishing]) -> None:
        async with transaction(connection):
            await connection.fetch(sql.WRITE_LOCK)
            if self._doubt is not None:
                await self._resolve(connection, publishes)
            todo = [one for one in publishes if one.outcome is None]
            if not todo:
                return
            now = max(one.now for one in todo)
            if now >= self._purge_at or now < self._purge_at - PURGE_INTERVAL:
                for statement in sql.PURGE:
                    await connection.fetch(statement, now)
                self._purge_at = now + PURGE_INTERVAL
            group = await self._read(connection, todo, now)
            outcomes = [(one, _decide(group, one)) for one in todo]
            if group.changes:
                name = uuid.uuid4().hex
                await connection.fetch(sql.WRITE, name, *group.columns())
                self._doubt = (name, outcomes)
        self._doubt = None
        for one, outcome in outcomes:
            one.outcome = outcome

    async def _resolve(self, connection: Connection, publishes: Sequence[Publishing]) -> None:
        """Under the lock: a transaction that outlived its connection has ended by now, one way or the other."""
        assert self._doubt is not None
        name, outcomes = self._doubt
        committed = await connection.fetchval(sql.LAST_GROUP) == name
        self._doubt = None
        for one, outcome in outcomes if committed else ():
            one.outcome = outcome
            if one not in publishes and not isinstance(outcome, ArchonError):
                self._found(one.given, outcome)

    async def _read(self, connection: Connection, todo: Sequence[Publishing], now: float) -> Group:
        requests, events, items = asked([(one.given, one.now) for one in todo])
        group = Group()
        if requests[0]:
            group.take_requests(await connection.fetch(sql.REQUESTS, *requests))
        if events[0]:
            group.take_events(await connection.fetch(sql.EVENTS, *events))
        group.take_items(await connection.fetch(sql.ITEMS, *items), now)
        return group


def _decide(group: Group, one: Publishing) -> Outcome | ArchonError:
    rows = Rows(group, one.given.tenant, one.given.scope)
    try:
        outcome = publishing.publish(rows, one.given, one.now)
    except ArchonError as error:
        return error
    rows.keep()
    return outcome
