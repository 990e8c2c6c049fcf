"""Stores sessions and the histories of their agents in SQLite or PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from archon.errors import Aborted
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.database import Database
from archon_mesh.memory.message_json import message_from_json, message_to_json

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
class HistoryKey:
    """Identifies the history of one agent in one session of one user."""

    user_id: str
    session_id: str
    agent_name: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message; `created_at` is in seconds since the Unix epoch."""

    message: ChatMessage
    created_at: float


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change of a history by a run: `messages` are appended, or replace all messages if `replaces` is set.

    If `undoes` is set, the messages of the run are deleted.
    """

    run_id: str
    messages: tuple[ChatMessage, ...] = ()
    replaces: bool = False
    undoes: bool = False


class SessionStore:
    """Sessions and histories in a database. All methods raise Unavailable, and ResourceExhausted if the disk is full.

    `location` is the path of a SQLite file, `memory`, or the URL of a PostgreSQL database. `now` returns seconds since
    the Unix epoch.
    """

    def __init__(self, location: str, *, now: Callable[[], float] = time.time) -> None:
        self._database = Database(location, METADATA)
        self._now = now

    async def close(self) -> None:
        """Closes all connections. Idempotent."""
        await self._database.close()

    async def open(self, key: HistoryKey) -> tuple[int, list[StoredMessage]]:
        """Returns the version and the messages of a history. Creates the session and the history if necessary."""

        def work(connection: sa.Connection) -> tuple[int, list[StoredMessage]]:
            _insert_if_missing(
                connection, SESSIONS, {"user_id": key.user_id, "session_id": key.session_id}, created_at=self._now()
            )
            _insert_if_missing(connection, AGENTS, _key_columns(key), version=0, updated_at=self._now())
            version = connection.execute(sa.select(AGENTS.c.version).where(*_key_filter(AGENTS, key))).scalar_one()
            return version, _read_messages(connection, key)

        return await self._database.run(work)

    async def save(self, key: HistoryKey, version: int, changes: Sequence[HistoryChange]) -> int:
        """Applies all changes or none, and returns the new version.

        Raises Aborted with the reason CONFLICT if the stored version is not `version`.
        """

        def work(connection: sa.Connection) -> int:
            updated = connection.execute(
                sa.update(AGENTS)
                .where(*_key_filter(AGENTS, key), AGENTS.c.version == version)
                .values(version=version + 1, updated_at=self._now())
            )
            if updated.rowcount != 1:
                raise Aborted(
                    f"conflict: another run of {key.agent_name} in session {key.session_id} was saved in the meantime",
                    reason="CONFLICT",
                )
            for change in changes:
                self._apply(connection, key, change)
            return version + 1

        return await self._database.run(work)

    async def messages(self, key: HistoryKey, *, since: int = 0, limit: int | None = None) -> list[StoredMessage]:
        """Returns the messages from index `since` on, in order; of these the last `limit`, or all."""
        return await self._database.run(lambda connection: _read_messages(connection, key, since, limit))

    async def sessions(self, user_id: str) -> list[str]:
        """Returns the session ids of a user, newest first."""
        query = sa.select(SESSIONS.c.session_id).where(SESSIONS.c.user_id == user_id)
        ordered = query.order_by(SESSIONS.c.created_at.desc(), SESSIONS.c.session_id)
        return await self._database.run(lambda connection: list(connection.execute(ordered).scalars()))

    async def agents(self, user_id: str, session_id: str) -> list[str]:
        """Returns the names of the agents in a session, sorted."""
        query = sa.select(AGENTS.c.agent_name).where(AGENTS.c.user_id == user_id, AGENTS.c.session_id == session_id)
        return await self._database.run(
            lambda connection: list(connection.execute(query.order_by(AGENTS.c.agent_name)).scalars())
        )

    async def delete(self, user_id: str, session_id: str) -> bool:
        """Deletes a session and its histories. Returns whether the session existed."""

        def work(connection: sa.Connection) -> bool:
            deleted = 0
            for table in (MESSAGES, AGENTS, SESSIONS):
                deleted = connection.execute(
                    sa.delete(table).where(table.c.user_id == user_id, table.c.session_id == session_id)
                ).rowcount
            return deleted > 0

        return await self._database.run(work)

    def _apply(self, connection: sa.Connection, key: HistoryKey, change: HistoryChange) -> None:
        if change.undoes:
            connection.execute(
                sa.delete(MESSAGES).where(*_key_filter(MESSAGES, key), MESSAGES.c.run_id == change.run_id)
            )
            return
        if change.replaces:
            connection.execute(sa.delete(MESSAGES).where(*_key_filter(MESSAGES, key)))
        if not change.messages:
            return
        last = (
            connection.execute(sa.select(sa.func.max(MESSAGES.c.place)).where(*_key_filter(MESSAGES, key))).scalar()
            or 0
        )
        rows = [
            {
                **_key_columns(key),
                "place": last + number,
                "run_id": message.run_id or change.run_id,
                "created_at": self._now(),
                "data": message_to_json(message),
            }
            for number, message in enumerate(change.messages, 1)
        ]
        connection.execute(sa.insert(MESSAGES), rows)


def _key_columns(key: HistoryKey) -> dict[str, str]:
    return {"user_id": key.user_id, "session_id": key.session_id, "agent_name": key.agent_name}


def _key_filter(table: sa.Table, key: HistoryKey) -> Iterable[sa.ColumnElement[bool]]:
    return [table.c[name] == value for name, value in _key_columns(key).items()]


def _insert_if_missing(connection: sa.Connection, table: sa.Table, identity: dict[str, str], **values: float) -> None:
    """Inserts a row unless it exists; safe if two callers do it concurrently."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgres

        statement: sa.Insert = insert_postgres(table).values(**identity, **values).on_conflict_do_nothing()
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite

        statement = insert_sqlite(table).values(**identity, **values).on_conflict_do_nothing()
    connection.execute(statement)


def _read_messages(
    connection: sa.Connection, key: HistoryKey, since: int = 0, limit: int | None = None
) -> list[StoredMessage]:
    if limit is not None:
        count = connection.execute(
            sa.select(sa.func.count()).select_from(MESSAGES).where(*_key_filter(MESSAGES, key))
        ).scalar_one()
        since = max(since, count - limit)
    query = sa.select(MESSAGES.c.data, MESSAGES.c.run_id, MESSAGES.c.created_at).where(*_key_filter(MESSAGES, key))
    rows = connection.execute(query.order_by(MESSAGES.c.place).offset(since)).all()
    return [StoredMessage(message_from_json(data, run_id), created_at) for data, run_id, created_at in rows]
