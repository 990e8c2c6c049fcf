"""Converts between entries and rows, and builds the conditions of filters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from archon.memory.long_term.entry import LongTermEntry
from archon_mesh.memory.long_term.port import Filters
from archon_mesh.memory.long_term.sqlite.database import fetch

if TYPE_CHECKING:
    import apsw


def to_row(tenant: str, entry: LongTermEntry, embedder: str) -> tuple[Any, ...]:
    """Returns the values of the columns tenant and COLUMNS."""
    return (
        tenant,
        entry.id,
        entry.content,
        entry.create_time,
        json.dumps(dict(entry.metadata), ensure_ascii=False),
        entry.importance,
        entry.use_count,
        entry.last_used,
        entry.useful,
        entry.not_useful,
        int(entry.archived),
        embedder,
        entry.checksum,
    )


def to_entry(row: Sequence[Any]) -> LongTermEntry | None:
    """Converts a row of COLUMNS; None if it is damaged."""
    try:
        metadata = json.loads(row[3])
        entry = LongTermEntry(
            id=row[0],
            content=row[1],
            create_time=float(row[2]),
            metadata=metadata,
            importance=float(row[4]),
            use_count=int(row[5]),
            last_used=None if row[6] is None else float(row[6]),
            useful=int(row[7]),
            not_useful=int(row[8]),
            archived=bool(row[9]),
            embedder=row[10],
            checksum=row[11],
        )
        return entry if entry.is_intact else None
    except (ValueError, TypeError, AttributeError):
        return None


def condition(tenant: str, filters: Filters) -> tuple[str, list[Any]]:
    """Returns a condition on `entries` and its arguments."""
    text, arguments = "tenant = ? AND damaged = 0", [tenant]
    if not filters.with_archived:
        text += " AND archived = 0"
    labels, more = label_condition(tenant, list(filters.metadata.items()))
    return text + labels, arguments + more


def label_condition(tenant: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, list[Any]]:
    """Returns a condition on `entries`, beginning with AND, that holds for entries with all pairs of metadata."""
    text = ""
    arguments: list[Any] = []
    for key, value in pairs:
        text += " AND number IN (SELECT entry FROM labels WHERE tenant = ? AND key = ? AND value = ?)"
        arguments += [tenant, key, value]
    return text, arguments


def embedder_number(connection: apsw.Connection, name: str, dimensions: int = 0) -> int | None:
    """Returns the number of an embedder's table, or None if there is none, or none of these dimensions."""
    query = "SELECT number FROM embedders WHERE name = ? AND ? IN (0, dimensions)"
    rows = fetch(connection, query, (name, dimensions))
    return int(rows[0][0]) if rows else None
