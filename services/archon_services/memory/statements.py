"""What the SQLite store does inside one transaction. Nothing here waits, commits, or asks for the time."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from archon.errors import Aborted, RequestIdReused, ResourceExhausted
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy
from archon_services.memory.store import NewItem, Publish, Published, StoredItem

REQUESTS_KEPT: Final = 86_400.0
"""Seconds that a request id is remembered, and an event of a run that a later one of the same role has followed."""

FENCES_KEPT: Final = 31 * 86_400.0
"""Seconds that the last event of a (scope, run, role) is remembered: longer than a journal keeps its runs."""

MAX_METADATA: Final = 64
"""Entries of one item's metadata, those of the items before it included."""

_PURGED_AT_ONCE: Final = 100
_ITEM: Final = "role, version, content, metadata, policy, timestamp, ttl, run_id, seq"


def publish(db: sqlite3.Connection, given: Publish, now: float) -> tuple[list[Published], list[StoredItem]]:
    """The answers, and the items that are new. Raises RequestIdReused, Aborted, ResourceExhausted."""
    _purge(db, now)
    if given.request_id:
        known = db.execute(
            "SELECT payload_hash, answer FROM requests WHERE tenant = ? AND request_id = ?",
            (given.tenant, given.request_id),
        ).fetchone()
        if known is not None:
            if known[0] != given.payload_hash:
                raise RequestIdReused(
                    f"the request id {given.request_id!r} came before with another payload",
                    metadata={"request_id": given.request_id},
                )
            return [Published(*one) for one in json.loads(known[1])], []
    answers: list[Published] = []
    fresh: list[StoredItem] = []
    for new in given.items:
        answer = _published_before(db, given, new)
        if answer is None:
            stored = _store(db, given, new, now)
            answer = Published(new.role, stored.item.version if stored else 0)
            fresh += [stored] if stored else []
        answers.append(answer)
    if given.request_id:
        db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)",
            (
                given.tenant,
                given.request_id,
                given.payload_hash,
                json.dumps([[one.role, one.version, one.repeated_before] for one in answers]),
                now + REQUESTS_KEPT,
            ),
        )
    return answers, fresh


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


def _published_before(db: sqlite3.Connection, given: Publish, new: NewItem) -> Published | None:
    """The answer that this event of a run got already; None where it is new. Raises Aborted where it is too late."""
    if not new.run_id:
        return None
    key = (given.tenant, given.scope, new.run_id, new.role)
    same = "FROM publications WHERE tenant = ? AND scope = ? AND run_id = ? AND role = ?"
    known = db.execute(f"SELECT version {same} AND epoch = ? AND seq = ?", (*key, new.epoch, new.seq)).fetchone()
    if known is not None:
        return Published(new.role, known[0], True)
    last = db.execute(f"SELECT epoch, seq {same} ORDER BY epoch DESC, seq DESC LIMIT 1", key).fetchone()
    if last is not None and (new.epoch, new.seq) < last:
        raise Aborted(
            f"event {new.seq} of epoch {new.epoch} comes too late: {new.role} has published event {last[1]} "
            f"of epoch {last[0]} of the run",
            reason="STALE_EPOCH",
            metadata={"run_id": new.run_id, "role": new.role, "epoch": str(last[0]), "seq": str(last[1])},
        )
    return None


def _store(db: sqlite3.Connection, given: Publish, new: NewItem, now: float) -> StoredItem | None:
    """The item as it stands now; None where its text is blank. What a publish means is the pure graph's to say."""
    row = db.execute(
        f"SELECT {_ITEM} FROM items WHERE tenant = ? AND scope = ? AND role = ?", (given.tenant, given.scope, new.role)
    ).fetchone()
    graph = SharedMemoryGraph.from_dict(
        {"nodes": [], "edges": [], "items": [], "versions": {new.role: row[1]} if row else {}}, clock=lambda: now
    )
    if row and row[2] is not None:
        graph.restore(_read(row).item)
    item = graph.publish(new.role, new.content, new.metadata, policy=new.policy, ttl=new.ttl)
    if item is None:
        return None
    if len(item.metadata) > MAX_METADATA:
        raise ResourceExhausted(
            f"with what it carried before, the metadata of {new.role} would have {len(item.metadata)} entries; "
            f"at most {MAX_METADATA}",
            metadata={"role": new.role, "limit": str(MAX_METADATA)},
        )
    db.execute(
        "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            given.tenant,
            given.scope,
            item.source_id,
            item.version,
            item.content,
            json.dumps(dict(item.metadata), ensure_ascii=False),
            item.policy.value,
            item.timestamp,
            item.ttl,
            None if item.ttl is None else item.timestamp + item.ttl,
            new.run_id,
            new.seq,
        ),
    )
    if new.run_id:
        _remember(db, given, new, item.version, now)
    return StoredItem(item, new.run_id, new.seq)


def _remember(db: sqlite3.Connection, given: Publish, new: NewItem, version: int, now: float) -> None:
    key = (given.tenant, given.scope, new.run_id, new.role)
    db.execute(
        "UPDATE publications SET expires_at = min(expires_at, ?)"
        " WHERE tenant = ? AND scope = ? AND run_id = ? AND role = ?",
        (now + REQUESTS_KEPT, *key),
    )
    db.execute(
        "INSERT INTO publications VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, new.epoch, new.seq, version, now + FENCES_KEPT),
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
