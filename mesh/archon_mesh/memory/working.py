"""Working memory of one task, in this process, with the methods and rules of the served one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from archon.memory import WorkingValue
from archon.memory.values import MAX_KEYS, check_expected, check_key, from_json, to_json, too_many_keys


class WorkingMemory:
    """JSON values by key, each with a version that counts its writes from 1 and never decreases.

    Reads return copies. `clock` returns seconds since the Unix epoch. Safe to use from threads.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._values: dict[str, tuple[str, float]] = {}
        self._versions: dict[str, int] = {}
        self._lock = threading.RLock()

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value, or the default."""
        entry = self.get_value(key)
        return default if entry is None else entry.value

    def get_value(self, key: str) -> WorkingValue | None:
        """Returns the value with its version, or None if the key has no value."""
        with self._lock:
            entry = self._values.get(check_key(key))
            if entry is None:
                return None
            value_json, written_at = entry
            return WorkingValue(key, from_json(value_json), self._versions[key], written_at)

    def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
        """Writes a value and returns its new version.

        `expected_version` makes the write conditional: the current version must match, 0 for no value. Raises Aborted
        with the reason CONFLICT if it does not, InvalidArgument if the key or the value is invalid, and
        ResourceExhausted if the value exceeds 1 MiB or there are more than 10,000 keys.
        """
        value_json = to_json(value)
        with self._lock:
            check_expected(check_key(key), expected_version, self.version(key))
            if key not in self._versions and len(self._versions) >= MAX_KEYS:
                raise too_many_keys()
            self._values[key] = (value_json, self._clock())
            version = self._versions[key] = self._versions.get(key, 0) + 1
            return version

    def update(self, values: Mapping[str, Any]) -> None:
        """Writes several values, one at a time."""
        for key, value in dict(values).items():
            self.set(key, value)

    def delete(self, key: str, expected_version: int | None = None) -> bool:
        """Deletes a value and returns whether it existed. A later write continues its versions.

        Raises Aborted with the reason CONFLICT if the value has another version than `expected_version`.
        """
        with self._lock:
            version = self.version(key)
            if version:
                check_expected(key, expected_version, version)
                del self._values[key]
            return bool(version)

    def clear(self) -> None:
        """Deletes all values."""
        with self._lock:
            self._values.clear()

    def version(self, key: str) -> int:
        """Returns the current version, or 0 if the key has no value."""
        with self._lock:
            return self._versions[key] if check_key(key) in self._values else 0

    def to_dict(self) -> dict[str, Any]:
        """Returns all values by key."""
        return {entry.key: entry.value for entry in self.list_values()}

    def list_values(self, prefix: str = "") -> list[WorkingValue]:
        """Returns the values whose keys start with `prefix`, with their versions, sorted by key."""
        with self._lock:
            keys = sorted(key for key in self._values if key.startswith(prefix))
            return [entry for key in keys if (entry := self.get_value(key)) is not None]
