"""The transactions of the SQLite store that write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archon.errors import FailedPrecondition, InvalidArgument
from archon.memory.long_term.entry import LongTermEntry
from archon_mesh.memory.long_term.port import Change, StoredVector
from archon_mesh.memory.long_term.sqlite.database import fetch
from archon_mesh.memory.long_term.sqlite.rows import embedder_number, label_condition, to_row
from archon_mesh.memory.long_term.sqlite.schema import COLUMNS, TABLES, VERSION, vector_table

if TYPE_CHECKING:
    import apsw


def prepare(connection: apsw.Connection) -> None:
    """Creates the tables. Raises FailedPrecondition if a newer version of Archon wrote the file."""
    with connection:
        connection.execute(TABLES)
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (str(VERSION),))
        row = fetch(connection, "SELECT value FROM meta WHERE key = 'version'")[0]
    if int(row[0]) > VERSION:
        raise FailedPrecondition(f"the long-term store has version {row[0]}; this Archon knows up to {VERSION}")


def insert(
    connection: apsw.Connection, tenant: str, entries: Sequence[LongTermEntry], vectors: Sequence[StoredVector | None]
) -> int:
    """Stores entries whose ids do not exist yet; returns their number."""
    new = 0
    marks = ", ".join("?" * 13)
    statement = f"INSERT INTO entries (tenant, {COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING number"
    for entry, stored in zip(entries, vectors, strict=True):
        stored = None if entry.archived else stored
        row = to_row(tenant, entry, stored.embedder if stored is not None else "")
        inserted = fetch(connection, statement, row)
        if not inserted:
            continue
        number = int(inserted[0][0])
        new += 1
        connection.executemany(
            "INSERT INTO labels VALUES (?, ?, ?, ?)",
            [(tenant, key, value, number) for key, value in entry.metadata.items()],
        )
        connection.execute("INSERT INTO words (rowid, content) VALUES (?, ?)", (number, entry.content))
        if stored is not None:
            _insert_vector(connection, tenant, number, stored)
    return new


def embed(connection: apsw.Connection, tenant: str, vectors: Mapping[str, StoredVector]) -> None:
    """Replaces vectors of active entries."""
    for entry_id, stored in vectors.items():
        rows = fetch(
            connection,
            "SELECT number, embedder FROM entries WHERE tenant = ? AND id = ? AND archived = 0 AND damaged = 0",
            (tenant, entry_id),
        )
        for number, embedder in rows:
            _delete_vector(connection, int(number), str(embedder))
            _insert_vector(connection, tenant, int(number), stored)
            connection.execute("UPDATE entries SET embedder = ? WHERE number = ?", (stored.embedder, number))


def change(connection: apsw.Connection, tenant: str, changes: Sequence[Change]) -> int:
    """Applies changes; returns the number of changed entries."""
    changed = 0
    for item in changes:
        row = fetch(
            connection,
            "UPDATE entries SET use_count = use_count + ?1,"
            " last_used = max(coalesce(last_used, ?2), coalesce(?2, last_used)),"
            " useful = useful + ?3, not_useful = not_useful + ?4, importance = coalesce(?5, importance)"
            " WHERE tenant = ?6 AND id = ?7 AND damaged = 0 RETURNING number, embedder, archived",
            (item.uses, item.used_at, item.useful, item.not_useful, item.importance, tenant, item.entry_id),
        )
        if not row:
            continue
        changed += 1
        number, embedder, archived = row[0]
        if item.archived is not None and item.archived != bool(archived):
            _delete_vector(connection, int(number), str(embedder))
            connection.execute(
                "UPDATE entries SET archived = ?, embedder = '' WHERE number = ?", (int(item.archived), number)
            )
    return changed


def delete(connection: apsw.Connection, tenant: str, entry_ids: Sequence[str]) -> int:
    """Deletes entries by id; returns the number of those that existed."""
    rows = [
        row
        for entry_id in entry_ids
        for row in fetch(
            connection, "SELECT number, embedder FROM entries WHERE tenant = ? AND id = ?", (tenant, entry_id)
        )
    ]
    return _delete_rows(connection, rows)


def forget(connection: apsw.Connection, tenant: str, metadata: Mapping[str, str]) -> int:
    """Deletes entries by metadata; returns their number. Raises InvalidArgument if there are no pairs."""
    if not metadata:
        raise InvalidArgument("forget needs at least one pair of metadata")
    text, arguments = label_condition(tenant, list(metadata.items()))
    query = f"SELECT number, embedder FROM entries WHERE tenant = ?{text}"
    return _delete_rows(connection, fetch(connection, query, [tenant, *arguments]))


def erase_deleted(connection: apsw.Connection) -> None:
    """Removes deleted texts from the full-text index's segments and from the write-ahead log."""
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")


def set_aside(connection: apsw.Connection, tenant: str, entry_ids: Sequence[str]) -> None:
    """Marks entries as damaged."""
    connection.executemany(
        "UPDATE entries SET damaged = 1 WHERE tenant = ? AND id = ?", [(tenant, entry_id) for entry_id in entry_ids]
    )


def _delete_rows(connection: apsw.Connection, rows: Sequence[Sequence[Any]]) -> int:
    for number, embedder in rows:
        _delete_vector(connection, int(number), str(embedder))
        connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
        connection.execute("DELETE FROM entries WHERE number = ?", (number,))
    return len(rows)


def _insert_vector(connection: apsw.Connection, tenant: str, number: int, stored: StoredVector) -> None:
    dimensions = len(stored.vector)
    rows = fetch(connection, "SELECT number, dimensions FROM embedders WHERE name = ?", (stored.embedder,))
    if not rows:
        connection.execute("INSERT INTO embedders (name, dimensions) VALUES (?, ?)", (stored.embedder, dimensions))
        table = connection.last_insert_rowid()
        connection.execute(vector_table(table, dimensions))
    elif rows[0][1] != dimensions:
        raise InvalidArgument(
            f"the embedder {stored.embedder} has {rows[0][1]} dimensions, the vector has {dimensions}"
        )
    else:
        table = int(rows[0][0])
    connection.execute(
        f"INSERT INTO vectors_{table} (rowid, tenant, embedding) VALUES (?, ?, ?)",
        (number, tenant, stored.vector.tobytes()),
    )


def _delete_vector(connection: apsw.Connection, number: int, embedder: str) -> None:
    if embedder and (table := embedder_number(connection, embedder)) is not None:
        connection.execute(f"DELETE FROM vectors_{table} WHERE rowid = ?", (number,))
