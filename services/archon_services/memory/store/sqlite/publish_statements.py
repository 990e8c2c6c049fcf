"""Statements for published items in SQLite. Each function runs within a transaction of the writer."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy
from archon_services.memory.domain.items import NewItem, Publish, Published, PublishOutcome, StoredItem
from archon_services.memory.domain.publishing import MAX_VERSIONS, apply_publish

_PURGE_BATCH: Final = 100
_ITEM: Final = "role, version, content, metadata, policy, timestamp, ttl, run_id, seq, task_id"
_EVENT: Final = "tenant = ? AND scope = ? AND run_id = ? AND role = ?"


def publish(db: sqlite3.Connection, request: Publish, now: float) -> PublishOutcome:
    """Publishes all items of a request. Raises RequestIdReused, Aborted, ResourceExhausted."""
    _purge(db, now)
    return apply_publish(SqliteRows(db, request.tenant, request.scope), request, now)


def items(db: sqlite3.Connection, tenant: str, scope: str) -> list[StoredItem]:
    """Returns the items of a scope in the order they were published: a replaced row gets the highest rowid."""
    rows = db.execute(
        f"SELECT {_ITEM} FROM items WHERE tenant = ? AND scope = ? AND content IS NOT NULL ORDER BY rowid",
        (tenant, scope),
    )
    return [_read_item(row) for row in rows]


def clear(db: sqlite3.Connection, tenant: str, scope: str, now: float) -> int:
    """Deletes the items of a scope but keeps their versions. Returns how many had not expired."""
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
    """Implements `publishing.Rows`: reads and writes directly, within the transaction."""

    def __init__(self, db: sqlite3.Connection, tenant: str, scope: str) -> None:
        self._db = db
        self._key = (tenant, scope)

    def request(self, request_id: str) -> tuple[bytes, list[Published]] | None:
        row = self._db.execute(
            "SELECT payload_hash, answer FROM requests WHERE tenant = ? AND request_id = ?", (self._key[0], request_id)
        ).fetchone()
        return (row[0], [Published(*result) for result in json.loads(row[1])]) if row is not None else None

    def version_of(self, new: NewItem) -> int | None:
        row = self._db.execute(
            f"SELECT version FROM publications WHERE {_EVENT} AND epoch = ? AND seq = ?",
            (*self._key, new.run_id, new.role, new.epoch, new.seq),
        ).fetchone()
        return int(row[0]) if row is not None else None

    def last_event(self, run_id: str, role: str) -> tuple[int, int] | None:
        last: tuple[int, int] | None = self._db.execute(
            f"SELECT epoch, seq FROM publications WHERE {_EVENT} ORDER BY epoch DESC, seq DESC LIMIT 1",
            (*self._key, run_id, role),
        ).fetchone()
        return last

    def items(self, role: str, task_id: str) -> list[tuple[int, StoredItem | None]]:
        own = _ITEM.replace("content", "CASE task_id WHEN ? THEN content END")  # the texts of other tasks are not read
        rows = self._db.execute(
            f"SELECT {own} FROM items WHERE tenant = ? AND scope = ? AND role = ?", (task_id, *self._key, role)
        )
        return [(row[1], _read_item(row) if row[2] is not None else None) for row in rows]

    def put_item(self, stored: StoredItem) -> None:
        item = stored.item
        self._db.execute(
            "DELETE FROM items WHERE tenant = ? AND scope = ? AND role = ? AND policy = ?"
            " AND (task_id = ? OR run_id <> ? OR version <= ?)",
            (*self._key, item.source_id, item.policy.value, item.task_id, stored.run_id, item.version - MAX_VERSIONS),
        )
        self._db.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                item.task_id,
            ),
        )

    def put_event(self, new: NewItem, version: int, expires_at: float, earlier_expire_at: float) -> None:
        key = (*self._key, new.run_id, new.role)
        self._db.execute(
            f"UPDATE publications SET expires_at = min(expires_at, ?) WHERE {_EVENT}", (earlier_expire_at, *key)
        )
        self._db.execute(
            "INSERT INTO publications VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*key, new.epoch, new.seq, version, expires_at)
        )

    def put_request(self, request_id: str, payload_hash: bytes, results: list[Published], expires_at: float) -> None:
        results_json = json.dumps([[result.role, result.version, result.repeated_before] for result in results])
        self._db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)",
            (self._key[0], request_id, payload_hash, results_json, expires_at),
        )


def _purge(db: sqlite3.Connection, now: float) -> None:
    """Deletes a bounded number of expired rows. Each publish does so, which keeps tables and latency small."""
    for table in ("requests", "publications"):
        expired = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_PURGE_BATCH}"
        db.execute(f"DELETE FROM {table} WHERE rowid IN ({expired})", (now,))
    expired = f"SELECT rowid FROM items WHERE expires_at <= ? LIMIT {_PURGE_BATCH}"
    db.execute(
        f"UPDATE items SET content = NULL, metadata = '{{}}', expires_at = NULL WHERE rowid IN ({expired})", (now,)
    )


def _read_item(row: tuple[str, int, str, str, str, float, float | None, str, int, str]) -> StoredItem:
    role, version, content, metadata, policy, timestamp, ttl, run_id, seq, task_id = row
    item = MemoryItem(role, content, timestamp, version, PropagationPolicy(policy), json.loads(metadata), ttl, task_id)
    return StoredItem(item, run_id, seq)
