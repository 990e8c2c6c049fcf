"""Versioned values in this process, with the calls and rules of the values that the tasks of a run share."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from archon.errors import Aborted


@dataclass(frozen=True, slots=True)
class LocalValue:
    """A value with the number of writes of its key. `timestamp` is in seconds since the Unix epoch."""

    key: str
    value: Any
    version: int
    timestamp: float


@dataclass(frozen=True, slots=True)
class LocalChange:
    """A change of a key: its present value, or None if it was deleted."""

    key: str
    value: LocalValue | None


class LocalValues:
    """The values of work lists of a plan in this process. They end with it. For one event loop."""

    def __init__(self) -> None:
        self._values: dict[str, LocalValue] = {}
        self._versions: dict[str, int] = {}
        self._changed: set[asyncio.Event] = set()

    async def get_value(self, key: str) -> LocalValue | None:
        """Returns a copy of the value of a key, or None."""
        return copy.deepcopy(self._values.get(key))

    async def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
        """Writes a value and returns its version. Raises Aborted / CONFLICT if the current version is another one than
        `expected_version`, 0 for no value."""
        self._check(key, expected_version)
        version = self._versions[key] = self._versions.get(key, 0) + 1
        self._values[key] = LocalValue(key, copy.deepcopy(value), version, time.time())
        self._wake()
        return version

    async def delete(self, key: str, expected_version: int | None = None) -> bool:
        """Deletes a value, and returns whether there was one. Raises Aborted / CONFLICT as `set` does."""
        self._check(key, expected_version)
        existed = self._values.pop(key, None) is not None
        self._wake()
        return existed

    async def list_values(self, prefix: str = "") -> Sequence[LocalValue]:
        """Returns copies of the values whose keys begin with `prefix`, sorted by key."""
        return [copy.deepcopy(self._values[key]) for key in sorted(self._values) if key.startswith(prefix)]

    async def watch(self, prefix: str = "") -> AsyncGenerator[LocalChange, None]:
        """Yields the values whose keys begin with `prefix`, and then each change, without a bound in time."""
        changed = asyncio.Event()
        self._changed.add(changed)
        seen: dict[str, int] = {}
        try:
            while True:
                changed.clear()
                for value in await self.list_values(prefix):
                    if seen.get(value.key) != value.version:
                        seen[value.key] = value.version
                        yield LocalChange(value.key, value)
                for key in [key for key in seen if key not in self._values]:
                    del seen[key]
                    yield LocalChange(key, None)
                await changed.wait()
        finally:
            self._changed.discard(changed)

    def _check(self, key: str, expected: int | None) -> None:
        current = self._values[key].version if key in self._values else 0
        if expected is not None and expected != current:
            raise Aborted(f"version conflict for {key!r}: expected {expected}, is {current}", reason="CONFLICT")

    def _wake(self) -> None:
        for changed in self._changed:
            changed.set()
