"""Writes groups of writes to working memory, each group in one transaction.

As with publishes, a group writes a name of its own: after a lost connection, the next group learns from it whether the
group in doubt was committed, so that a repeated write does not conflict with itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon.errors import ArchonError
from archon_services.memory.domain.working import KeyRecord, Totals, Value, Write, apply_write
from archon_services.memory.store.postgres import working_statements as sql
from archon_services.memory.store.postgres.columns import columns
from archon_services.memory.store.postgres.schema import WORKING_LOCK
from archon_services.postgres.connections import Connection, transaction

Scope = tuple[str, str]
Key = tuple[str, str, str]


@dataclass(eq=False, slots=True)
class PendingWrite:
    """A write and the time at which it applies. `outcome` is set once it is durable or refused."""

    request: Write
    now: float
    outcome: Value | ArchonError | None = None
    is_done: bool = False


class WorkingWriter:
    """The `send` function of a GroupCommit."""

    def __init__(self) -> None:
        self._in_doubt: tuple[str, list[tuple[PendingWrite, Value | ArchonError | None]]] | None = None

    async def send(self, connection: Connection, group: Sequence[PendingWrite]) -> Sequence[Any]:
        """Executes a group in order and returns one result per write. Idempotent: repeated after a lost connection, it
        does not execute committed writes again."""
        if not all(write.is_done for write in group):
            await self._write(connection, group)
        return [write.outcome for write in group]

    async def _write(self, connection: Connection, writes: Sequence[PendingWrite]) -> None:
        async with transaction(connection):
            await connection.fetch(WORKING_LOCK)
            if self._in_doubt is not None:
                await self._resolve_doubt(connection)
            pending = [write for write in writes if not write.is_done]
            if not pending:
                return
            group = await _read_group(connection, pending)
            outcomes = [(write, _apply(group, write)) for write in pending]
            if group.changed:
                name = uuid.uuid4().hex
                await connection.fetch(sql.WRITE, name, *group.write_arguments())
                self._in_doubt = (name, outcomes)
        self._in_doubt = None
        _set_outcomes(outcomes)

    async def _resolve_doubt(self, connection: Connection) -> None:
        """Learns the outcome of the group in doubt. The caller holds WORKING_LOCK, so its transaction has ended."""
        assert self._in_doubt is not None
        name, outcomes = self._in_doubt
        committed = await connection.fetchval(sql.LAST_GROUP) == name
        self._in_doubt = None
        if committed:
            _set_outcomes(outcomes)


def _set_outcomes(outcomes: Iterable[tuple[PendingWrite, Value | ArchonError | None]]) -> None:
    for write, outcome in outcomes:
        write.outcome, write.is_done = outcome, True


def _apply(group: WriteGroup, write: PendingWrite) -> Value | ArchonError | None:
    try:
        return apply_write(_GroupRows(group, (write.request.tenant, write.request.scope)), write.request, write.now)
    except ArchonError as error:
        return error


async def _read_group(connection: Connection, pending: Sequence[PendingWrite]) -> WriteGroup:
    """Reads the rows of a group. First deletes expired scopes: all in the group, and a bounded part of another."""
    now = max(write.now for write in pending)
    scopes = columns({(write.request.tenant, write.request.scope) for write in pending}, 2)
    keys = columns({(write.request.tenant, write.request.scope, write.request.key) for write in pending}, 3)
    await connection.fetch(sql.DELETE_EXPIRED, *scopes, now)
    for row in await connection.fetch(sql.OLDEST_EXPIRED, now):
        await connection.fetch(sql.PURGE, *row)
    group = WriteGroup()
    for tenant, scope, *totals in await connection.fetch(sql.TOTALS, *scopes):
        group.totals[tenant, scope] = Totals(*totals)
    for tenant, scope, key, version, size in await connection.fetch(sql.KEYS, *keys):
        group.records[tenant, scope, key] = KeyRecord(version, size)
    return group


@dataclass(slots=True)
class WriteGroup:
    """The stored rows that a group of writes needs, and the changes to write."""

    totals: dict[Scope, Totals] = field(default_factory=dict)
    records: dict[Key, KeyRecord] = field(default_factory=dict)
    expires_at: dict[Scope, float] = field(default_factory=dict)
    changed: dict[Key, tuple[int, str | None, float]] = field(default_factory=dict)

    def write_arguments(self) -> list[list[Any]]:
        """Returns the arguments of WRITE but the first."""
        scopes = [
            (*scope, self.totals[scope].keys, self.totals[scope].size, expires_at)
            for scope, expires_at in self.expires_at.items()
        ]
        return [*columns(scopes, 5), *columns([(*key, *row) for key, row in self.changed.items()], 6)]


@dataclass(slots=True)
class _GroupRows:
    """Implements `working.Rows`: the view that one write has of its group."""

    group: WriteGroup
    scope: Scope

    def totals(self) -> Totals:
        return self.group.totals.get(self.scope, Totals())

    def key_record(self, key: str) -> KeyRecord | None:
        return self.group.records.get((*self.scope, key))

    def put(self, value: Value, record: KeyRecord, totals: Totals, expires_at: float) -> None:
        key = (*self.scope, value.key)
        value_json = None if record.size is None else value.value_json
        self.group.records[key] = record
        self.group.totals[self.scope] = totals
        self.group.expires_at[self.scope] = max(expires_at, self.group.expires_at.get(self.scope, 0.0))
        self.group.changed[key] = (value.version, value_json, value.updated_at)
