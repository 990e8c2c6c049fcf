"""Working memory in PostgreSQL. Writes that wait together are one transaction, which writes its own name: after a lost
connection the next one reads whose was the last, so that no write finds its own version in its way."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon.errors import ArchonError
from archon_services.memory.domain import working
from archon_services.memory.domain.working import MAX_PAGE_BYTES, Held, Totals, Value, Write, Written
from archon_services.memory.store.postgres import working_statements as sql
from archon_services.memory.store.sql_store import within
from archon_services.memory.store.working_writes import Writes
from archon_services.postgres.connections import Connection, Connections, transaction
from archon_services.postgres.group_commit import Lane

Scope = tuple[str, str]
Key = tuple[str, str, str]


@dataclass(eq=False, slots=True)
class Writing:
    """A write at its time. `outcome` once it is known to be durable, or refused for good."""

    given: Write
    now: float
    outcome: Value | ArchonError | None = None
    is_settled: bool = False


class PostgresWorking:
    """See WorkingStore. `check` raises where this service may no longer work on the database."""

    def __init__(
        self, lane: Lane[Writing, Any], connections: Connections, clock: Callable[[], float], check: Callable[[], None]
    ) -> None:
        self._lane = lane
        self._connections = connections
        self._clock = clock
        self._check = check
        self._writes = Writes(self._write)

    async def write(self, given: Write) -> Written:
        """See WorkingStore."""
        self._check()
        return await self._writes.do(given)

    async def _write(self, given: Write) -> Written:
        written: Written = await self._lane.do(Writing(given, self._clock()))
        return written

    async def value(self, tenant: str, scope: str, key: str) -> Value | None:
        """See WorkingStore."""
        self._check()
        rows = await within(self._connections.fetch(sql.VALUE, tenant, scope, self._clock(), key))
        return Value(*rows[0]) if rows else None

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]:
        """See WorkingStore."""
        self._check()
        asked = (tenant, scope, self._clock(), after, prefix, limit + 1, MAX_PAGE_BYTES)
        rows = (await within(self._connections.fetch(sql.PAGE, *asked)))[:limit]
        return [Value(*row[:4]) for row in rows], bool(rows) and bool(rows[-1][4])


class WorkingSender:
    """Sends groups of writes, in the order given."""

    def __init__(self) -> None:
        self._doubt: tuple[str, list[tuple[Writing, Value | ArchonError | None]]] | None = None

    async def send(self, connection: Connection, work: Sequence[Writing]) -> Sequence[Any]:
        """Sent again after a lost connection, what was committed is not done again."""
        if not all(one.is_settled for one in work):
            await self._send(connection, work)
        return [one.outcome for one in work]

    async def _send(self, connection: Connection, work: Sequence[Writing]) -> None:
        async with transaction(connection):
            await connection.fetch(sql.WRITE_LOCK)
            if self._doubt is not None:
                await self._resolve(connection)
            todo = [one for one in work if not one.is_settled]
            if not todo:
                return
            group = await _read(connection, todo)
            outcomes = [(one, _decide(group, one)) for one in todo]
            if group.put:
                name = uuid.uuid4().hex
                await connection.fetch(sql.WRITE, name, *group.columns())
                self._doubt = (name, outcomes)
        self._doubt = None
        _settle(outcomes)

    async def _resolve(self, connection: Connection) -> None:
        """Under the lock: a transaction that outlived its connection has ended by now, one way or the other."""
        assert self._doubt is not None
        name, outcomes = self._doubt
        committed = await connection.fetchval(sql.LAST_GROUP) == name
        self._doubt = None
        if committed:
            _settle(outcomes)


def _settle(outcomes: Iterable[tuple[Writing, Value | ArchonError | None]]) -> None:
    for one, outcome in outcomes:
        one.outcome, one.is_settled = outcome, True


def _decide(group: Group, one: Writing) -> Value | ArchonError | None:
    try:
        return working.write(_Rows(group, (one.given.tenant, one.given.scope)), one.given, one.now)
    except ArchonError as error:
        return error


async def _read(connection: Connection, todo: Sequence[Writing]) -> Group:
    """Forgets what is over first, the scopes that are asked for whole, of another a part."""
    now = max(one.now for one in todo)
    scopes = _columns({(one.given.tenant, one.given.scope) for one in todo}, 2)
    keys = _columns({(one.given.tenant, one.given.scope, one.given.key) for one in todo}, 3)
    await connection.fetch(sql.FORGET, *scopes, now)
    for row in await connection.fetch(sql.OVER, now):
        await connection.fetch(sql.PURGE, *row)
    group = Group()
    for tenant, scope, *counted in await connection.fetch(sql.SCOPES, *scopes):
        group.totals[tenant, scope] = Totals(*counted)
    for tenant, scope, key, version, size in await connection.fetch(sql.HELD, *keys):
        group.held[tenant, scope, key] = Held(version, size)
    return group


@dataclass(slots=True)
class Group:
    """What stands so far, and what is to be written."""

    totals: dict[Scope, Totals] = field(default_factory=dict)
    held: dict[Key, Held] = field(default_factory=dict)
    expires: dict[Scope, float] = field(default_factory=dict)
    put: dict[Key, tuple[int, str | None, float]] = field(default_factory=dict)

    def columns(self) -> list[list[Any]]:
        """The arguments of WRITE, but the first."""
        scopes = [(*key, self.totals[key].keys, self.totals[key].size, at) for key, at in self.expires.items()]
        return [*_columns(scopes, 5), *_columns([(*key, *row) for key, row in self.put.items()], 6)]


@dataclass(slots=True)
class _Rows:
    """See working.Rows: one write's view of its group."""

    group: Group
    scope: Scope

    def totals(self) -> Totals:
        """See working.Rows."""
        return self.group.totals.get(self.scope, Totals())

    def held(self, key: str) -> Held | None:
        """See working.Rows."""
        return self.group.held.get((*self.scope, key))

    def put(self, value: Value, held: Held, totals: Totals, expires_at: float) -> None:
        """See working.Rows."""
        key = (*self.scope, value.key)
        stands = None if held.size is None else value.value_json
        self.group.held[key] = held
        self.group.totals[self.scope] = totals
        self.group.expires[self.scope] = max(expires_at, self.group.expires.get(self.scope, 0.0))
        self.group.put[key] = (value.version, stands, value.updated_at)


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    found = list(rows)
    return [list(column) for column in zip(*found, strict=True)] if found else [[] for _ in range(width)]
