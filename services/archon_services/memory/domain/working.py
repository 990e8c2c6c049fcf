"""What a write to working memory means, whatever store it goes to, and what such a store can do. Nothing here waits or
asks for the time; what stands so far is looked up in `Rows`, what changes is put there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from archon.errors import ResourceExhausted
from archon.memory.values import MAX_KEYS, check_expected, too_many_keys

KEPT: Final = 30 * 86_400.0
"""Seconds after the last write in a scope until all of it is forgotten, versions included: as long as an orchestrator
keeps a run that has ended, where nobody says otherwise."""

MAX_SCOPE_BYTES: Final = 64 * 1024 * 1024
"""Of all values of one scope."""

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page ends with the value that reaches it."""


@dataclass(frozen=True, slots=True)
class Write:
    """`value_json` None deletes. `expected` is the version that must stand, 0: nothing must; None: whatever stands."""

    tenant: str
    scope: str
    key: str
    value_json: str | None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """As it stands; `updated_at` in seconds since the Unix epoch."""

    key: str
    value_json: str
    version: int
    updated_at: float


Written = Value | None
"""What was written; for a delete, None where nothing stood, else what is left of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is remembered of a key: its last version, and the bytes of its value, None where it was deleted."""

    version: int
    size: int | None

    @property
    def stands(self) -> int:
        """The version that stands; 0 where nothing does."""
        return 0 if self.size is None else self.version


@dataclass(frozen=True, slots=True)
class Totals:
    """Of a scope. Keys that were deleted count, since their versions are kept."""

    keys: int = 0
    size: int = 0


class Rows(Protocol):
    """The rows of one scope, which hasn't expired."""

    def totals(self) -> Totals: ...

    def held(self, key: str) -> Held | None:
        """None for a key that was never written."""
        ...

    def put(self, value: Value, held: Held, totals: Totals, expires_at: float) -> None:
        """`held` without a size: the key is deleted, whatever `value` says."""
        ...


def write(rows: Rows, given: Write, now: float) -> Written:
    """Raises Aborted / CONFLICT where another version stands, ResourceExhausted where the scope is full."""
    held = rows.held(given.key)
    stands = held.stands if held else 0
    if given.value_json is None and not stands:
        return None
    check_expected(given.key, given.expected, stands)
    before = rows.totals()
    version = held.version if held else 0
    size = None if given.value_json is None else len(given.value_json.encode())
    grown = (size or 0) - ((held.size or 0) if held else 0)
    totals = Totals(before.keys + (held is None), before.size + grown)
    if totals.keys > MAX_KEYS and held is None:
        raise too_many_keys()
    if totals.size > MAX_SCOPE_BYTES and grown > 0:
        raise ResourceExhausted(
            f"with it the values of the scope would have {totals.size:,} bytes, at most {MAX_SCOPE_BYTES:,}",
            metadata={"size": str(totals.size), "limit": str(MAX_SCOPE_BYTES)},
        )
    value = Value(given.key, given.value_json or "", version + (size is not None), now)
    rows.put(value, Held(value.version, size), totals, now + KEPT)
    return value


class WorkingStore(Protocol):
    """Every method raises Unavailable where the store doesn't answer within seconds, and ResourceExhausted where it has
    no room: too much waits, the disk is full."""

    async def write(self, given: Write) -> Written:
        """Durable on return. See `write`."""
        ...

    async def value(self, tenant: str, scope: str, key: str) -> Value | None:
        """What stands."""
        ...

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]:
        """Those whose keys begin so and come after another, in the order of code points, at most `limit` and about
        MAX_PAGE_BYTES; and whether there are more."""
        ...
