"""Rules of a write to working memory, the same for every store. Pure: reads and writes go through `Rows`, and the
caller passes the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from archon.errors import ResourceExhausted
from archon.memory.values import MAX_KEYS, check_expected, too_many_keys

RETENTION: Final = 30 * 86_400.0
"""Seconds after the last write in a scope until the scope is deleted, versions included: as long as an orchestrator
keeps a run that has ended, by default."""

MAX_SCOPE_BYTES: Final = 64 * 1024 * 1024
"""Size of all values of a scope."""

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page ends with the value that reaches this size."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one key; `value_json` None deletes it. `expected` is the version that must be current: 0 for no value,
    None for any."""

    tenant: str
    scope: str
    key: str
    value_json: str | None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """The current value of a key. `updated_at` is in seconds since the Unix epoch."""

    key: str
    value_json: str
    version: int
    updated_at: float


Written = Value | None
"""The value that was written; for a delete, the deleted key's last version, or None if there was no value."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The record of a key: its last version, and the size of its value in bytes, None if it is deleted."""

    version: int
    size: int | None

    @property
    def current_version(self) -> int:
        """The version of the current value; 0 if there is none."""
        return 0 if self.size is None else self.version


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a scope. Deleted keys count, because their versions are kept."""

    keys: int = 0
    size: int = 0


class Rows(Protocol):
    """The stored rows of one scope that has not expired."""

    def totals(self) -> Totals: ...

    def key_record(self, key: str) -> KeyRecord | None:
        """Returns None for a key that was never written."""
        ...

    def put(self, value: Value, record: KeyRecord, totals: Totals, expires_at: float) -> None:
        """Stores a key; a `record` without a size deletes its value."""
        ...


def apply_write(rows: Rows, request: Write, now: float) -> Written:
    """Applies a write. Raises Aborted (CONFLICT) if another version is current, ResourceExhausted if the scope is
    full."""
    record = rows.key_record(request.key)
    current = record.current_version if record else 0
    if request.value_json is None and not current:
        return None
    check_expected(request.key, request.expected, current)
    version = record.version if record else 0
    size = None if request.value_json is None else len(request.value_json.encode())
    growth = (size or 0) - ((record.size or 0) if record else 0)
    before = rows.totals()
    totals = Totals(before.keys + (record is None), before.size + growth)
    if totals.keys > MAX_KEYS and record is None:
        raise too_many_keys()
    if totals.size > MAX_SCOPE_BYTES and growth > 0:
        raise ResourceExhausted(
            f"scope is full: its values would have {totals.size:,} bytes, at most {MAX_SCOPE_BYTES:,}",
            metadata={"size": str(totals.size), "limit": str(MAX_SCOPE_BYTES)},
        )
    value = Value(request.key, request.value_json or "", version + (size is not None), now)
    rows.put(value, KeyRecord(value.version, size), totals, now + RETENTION)
    return value
