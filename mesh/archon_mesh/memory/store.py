"""Sessions and the histories of the agents in them, in SQLite or PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from archon.errors import Aborted
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.database import Database
from archon_mesh.memory.form import message_from_json, message_to_json

METADATA: Final = sa.MetaData()

SESSIONS: Final = sa.Table(
    "archon_sessions",
    METADATA,
    sa.Column("user_id", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, primary_key=True),
    sa.Column("created_at", sa.Double, nullable=False),
)
AGENTS: Final = sa.Table(
    "archon_session_agents",
    METADATA,
    sa.Column("user_id", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, primary_key=True),
    sa.Column("agent_name", sa.String, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
)
MESSAGES: Final = sa.Table(
    "archon_session_messages",
    METADATA,
    sa.Column("user_id", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, primary_key=True),
    sa.Column("agent_name", sa.String, primary_key=True),
    sa.Column("place", sa.BigInteger, primary_key=True),
    sa.Column("run_id", sa.String, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Key:
    """One agent's history in one session of one user."""

    user_id: str
    session_id: str
    agent_name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One message; `created_at` in wall seconds."""

    message: ChatMessage
    created_at: float


@dataclass(frozen=True, slots=True)
class Change:
    """Messages that came with a run; in place of all where `replaces`. Without messages and `undoes`: the run is taken
    back."""

    run_id: str
    messages: tuple[ChatMessage, ...] = ()
    replaces: bool = False
    undoes: bool = False


class SessionStore:
    """`where` is the path of a SQLite file, `memory`, or the address of a PostgreSQL. Raises Unavailable, and
    ResourceExhausted where the disk is full; `now` gives wall seconds."""

    def __init__(self, where: str, *, now: Callable[[], float] = time.time) -> None:
        self._database = Database(where, METADATA)
        self._now = now

    async def close(self) -> None:
        """Idempotent."""
        await self._database.close()

    async def open(self, key: Key) -> tuple[int, list[Stored]]:
        """The version and the messages of a history; session and agent are made where they aren't there."""

        def work(connection: sa.Connection) -> tuple[int, list[Stored]]:
            _ensure(
                connection, SESSIONS, {"user_id": key.user_id, "session_id": key.session_id}, created_at=self._now()
            )
            _ensure(connection, AGENTS, _where(key), version=0, updated_at=self._now())
            version = connection.execute(sa.select(AGENTS.c.version).where(*_same(AGENTS, key))).scalar_one()
            return version, _read(connection, key)

        return await self._database.run(work)

    async def save(self, key: Key, version: int, changes: Sequence[Change]) -> int:
        """All of them or none, under the condition that nobody has saved since `version`; the new one. Raises Aborted
        with the reason CONFLICT where somebody has."""

        def work(connection: sa.Connection) -> int:
            moved = connection.execute(
                sa.update(AGENTS)
                .where(*_same(AGENTS, key), AGENTS.c.version == version)
                .values(version=version + 1, updated_at=self._now())
            )
            if moved.rowcount != 1:
                raise Aborted(
                    f"another run of session {key.session_id} of {key.agent_name} has been saved meanwhile",
                    reason="CONFLICT",
                )
            for change in changes:
                self._apply(connection, key, change)
            return version + 1

        return await self._database.run(work)

    async def messages(self, key: Key, *, since: float = 0.0, limit: int | None = None) -> list[Stored]:
        """Those from `since` (wall seconds) on, in order; of more than `limit` the last."""
        return await self._database.run(lambda connection: _read(connection, key, since, limit))

    async def sessions(self, user_id: str) -> list[str]:
        """Of a user, newest first."""
        found = sa.select(SESSIONS.c.session_id).where(SESSIONS.c.user_id == user_id)
        ordered = found.order_by(SESSIONS.c.created_at.desc(), SESSIONS.c.session_id)
        return await self._database.run(lambda connection: list(connection.execute(ordered).scalars()))

    async def agents(self, user_id: str, session_id: str) -> list[str]:
        """Those that have taken part in a session, by name."""
        found = sa.select(AGENTS.c.agent_name).where(AGENTS.c.user_id == user_id, AGENTS.c.session_id == session_id)
        return await self._database.run(
            lambda connection: list(connection.execute(found.order_by(AGENTS.c.agent_name)).scalars())
        )

    async def delete(self, user_id: str, session_id: str) -> bool:
        """Forgets a session; whether there was one."""

        def work(connection: sa.Connection) -> bool:
            gone = 0
            for table in (MESSAGES, AGENTS, SESSIONS):
                gone = connection.execute(
                    sa.delete(table).where(table.c.user_id == user_id, table.c.session_id == session_id)
                ).rowcount
            return gone > 0

        return await self._database.run(work)

    def _apply(self, connection: sa.Connection, key: Key, change: Change) -> None:
        if change.undoes:
            connection.execute(sa.delete(MESSAGES).where(*_same(MESSAGES, key), MESSAGES.c.run_id == change.run_id))
            return
        if change.replaces:
            connection.execute(sa.delete(MESSAGES).where(*_same(MESSAGES, key)))
        if not change.messages:
            return
        last = connection.execute(sa.select(sa.func.max(MESSAGES.c.place)).where(*_same(MESSAGES, key))).scalar() or 0
        rows = [
            {
                **_where(key),
                "place": last + number,
                "run_id": message.run_id or change.run_id,
                "created_at": self._now(),
                "data": message_to_json(message),
            }
            for number, message in enumerate(change.messages, 1)
        ]
        connection.execute(sa.insert(MESSAGES), rows)


def _where(key: Key) -> dict[str, str]:
    return {"user_id": key.user_id, "session_id": key.session_id, "agent_name": key.agent_name}


def _same(table: sa.Table, key: Key) -> Iterable[sa.ColumnElement[bool]]:
    return [table.c[name] == value for name, value in _where(key).items()]


def _ensure(connection: sa.Connection, table: sa.Table, identity: dict[str, str], **first: float) -> None:
    """Two that do it at once make one row."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgres

        statement: sa.Insert = insert_postgres(table).values(**identity, **first).on_conflict_do_nothing()
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite

        statement = insert_sqlite(table).values(**identity, **first).on_conflict_do_nothing()
    connection.execute(statement)


def _read(connection: sa.Connection, key: Key, since: float = 0.0, limit: int | None = None) -> list[Stored]:
    found = sa.select(MESSAGES.c.data, MESSAGES.c.run_id, MESSAGES.c.created_at).where(
        *_same(MESSAGES, key), MESSAGES.c.created_at >= since
    )
    if limit is not None:
        found = found.order_by(MESSAGES.c.place.desc()).limit(limit)
        rows = list(reversed(connection.execute(found).all()))
    else:
        rows = list(connection.execute(found.order_by(MESSAGES.c.place)).all())
    return [Stored(message_from_json(data, run_id), created_at) for data, run_id, created_at in rows]
