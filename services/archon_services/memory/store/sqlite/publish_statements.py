"""What the SQLite store does inside one transaction. Nothing here waits, commits, or asks for the time."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy
from archon_services.memory.domain import publishing
from archon_services.memory.store.port import NewItem, Publish, Published, StoredItem

_PURGED_AT_ONCE: Final = 100
_ITEM: Final = "role, version, content, metadata, policy, timestamp, ttl, run_id, seq"
_EVENT: Final = "tenant = ? AND scope = ? AND run_id = ? AND role = ?"


def publish(db: sqlite3.Connection, given: Publish, now: float) -> tuple[list[Published], list[StoredItem]]:
    """The answers, and the items that are new. Raises RequestIdReused, Aborted, ResourceExhausted."""
    _purge(db, now)
    return publishing.publish(SqliteRows(db, given.tenant, given.scope), given, now)


def items(db: sqlite3.Connection, tenant: str, scope: str) -> list[StoredItem]:
    """What stands in a scope, in the order it was published: a row that is replaced gets a new rowid, the highest."""
    rows = db.execute(
        f"SELECT {_ITEM} FROM items WHERE tenant = ? AND scope = ? AND content IS NOT NULL ORDER BY rowid",
        (tenant, scope),
    )
    return [_read(row) for row in rows]


def clear(db: sqlite3.Connection, tenant: str, scope: str, now: float) -> int:
    """Forgets the items of a scope, keeps their versions; how many hadn't expired."""
    (live,) = db.execute(
        "SELECT count(*) FROM items WHERE tenant = ? AND scope = ? AND content IS NOT NULL"
        " AND (expires_at IS NULL OR expires_at > ?)",
        (tenant, scope, now),
    ).fetchone()
    db.execute(
        "UPDATE items SET content = NULL, metadata = '{}', expires_at = NULL WHERE tenant = ? AND scope = ?",
        (tenant, scope),
    )
    return int(live)


class SqliteRows:
    """See publishing.Rows: looked up and written at once, inside the transaction."""

    def __init__(self, db: sqlite3.Connection, tenant: str, scope: str) -> None:
        self._db = db
        self._key = (tenant, scope)

    def request(self, request_id: str) -> tuple[bytes, list[Published]] | None:
        """See Rows."""
        known = self._db.execute(
            "SELECT payload_hash, answer FROM requests WHERE tenant = ? AND request_id = ?", (self._key[0], request_id)
        ).fetchone()
        return (known[0], [Published(*one) for one in json.loads(known[1])]) if known is not None else None

    def version_of(self, new: NewItem) -> int | None:
        """See Rows."""
        known = self._db.execute(
            f"SELECT version FROM publications WHERE {_EVENT} AND epoch = ? AND seq = ?",
            (*self._key, new.run_id, new.role, new.epoch, new.seq),
        ).fetchone()
        return int(known[0]) if known is not None else None

    def last_event(self, run_id: str, role: str) -> tuple[int, int] | None:
        """See Rows."""
        last: tuple[int, int] | None = self._db.execute(
            f"SELECT epoch, seq FROM publications WHERE {_EVENT} ORDER BY epoch DESC, seq DESC LIMIT 1",
            (*self._key, run_id, role),
        ).fetchone()
        return last

    def item(self, role: str) -> tuple[int, StoredItem | None] | None:
        """See Rows."""
        row = self._db.execute(
            f"SELECT {_ITEM} FROM items WHERE tenant = ? AND scope = ? AND role = ?", (*self._key, role)
        ).fetchone()
        return (row[1], _read(row) if row[2] is not None else None) if row is not None else None

    def put_item(self, stored: StoredItem) -> None:
        """See Rows."""
        item = stored.item
        self._db.execute(
            "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *self._key,
                item.source_id,
                item.version,
                item.content,
                json.dumps(dict(item.metadata), ensure_ascii=False),
                item.policy.value,
                item.timestamp,
                item.ttl,
                None if item.ttl is None else item.timestamp + item.ttl,
                stored.run_id,
                stored.seq,
            ),
        )

    def put_event(self, new: NewItem, version: int, expires_at: float, earlier_expire_at: float) -> None:
        """See Rows."""
        key = (*self._key, new.run_id, new.role)
        self._db.execute(
            f"UPDATE publications SET expires_at = min(expires_at, ?) WHERE {_EVENT}", (earlier_expire_at, *key)
        )
        self._db.execute(
            "INSERT INTO publications VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*key, new.epoch, new.seq, version, expires_at)
        )

    def put_request(self, request_id: str, payload_hash: bytes, answers: list[Published], expires_at: float) -> None:
        """See Rows."""
        said = json.dumps([[one.role, one.version, one.repeated_before] for one in answers])
        self._db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (self._key[0], request_id, payload_hash, said, expires_at)
        )


def _purge(db: sqlite3.Connection, now: float) -> None:
    """A little of what is over goes with each publish, so that nothing grows for ever and nothing takes long."""
    for table in ("requests", "publications"):
        over = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_PURGED_AT_ONCE}"
        db.execute(f"DELETE FROM {table} WHERE rowid IN ({over})", (now,))
    over = f"SELECT rowid FROM items WHERE expires_at <= ? LIMIT {_PURGED_AT_ONCE}"
    db.execute(f"UPDATE items SET content = NULL, metadata = '{{}}', expires_at = NULL WHERE rowid IN ({over})", (now,))


def _read(row: tuple[str, int, str, str, str, float, float | None, str, int]) -> StoredItem:
    role, version, content, metadata, policy, timestamp, ttl, run_id, seq = row
    item = MemoryItem(role, content, timestamp, version, PropagationPolicy(policy), json.loads(metadata), ttl)
    return StoredItem(item, run_id, seq)
