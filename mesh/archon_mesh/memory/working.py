"""Working memory of one task, in this process: the names and rules of the served one, without the wire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from archon.memory import WorkingValue
from archon.memory.values import MAX_KEYS, check_expected, check_key, from_json, to_json, too_many_keys


class WorkingMemory:
    """JSON values under keys, each with a version that counts its writes from 1 and never goes back. What is read is a
    copy. `clock` gives seconds since the Unix epoch. Safe to use from threads."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._values: dict[str, tuple[str, float]] = {}
        self._versions: dict[str, int] = {}
        self._lock = threading.RLock()

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        found = self.get_value(key)
        return default if found is None else found.value

    def get_value(self, key: str) -> WorkingValue | None:
        """The value with its version; None where nothing stands."""
        with self._lock:
            found = self._values.get(check_key(key))
            return None if found is None else WorkingValue(key, from_json(found[0]), self._versions[key], found[1])

    def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
        """Writes it; the version that it has now. `expected_version` writes only where that version stands, 0: only
        where nothing does. Raises Aborted / CONFLICT where another stands, InvalidArgument for what is no JSON value or
        no key, ResourceExhausted for a value above 1 MiB and above 10,000 keys."""
        made = to_json(value)
        with self._lock:
            check_expected(check_key(key), expected_version, self.version(key))
            if key not in self._versions and len(self._versions) >= MAX_KEYS:
                raise too_many_keys()
            self._values[key] = (made, self._clock())
            version = self._versions[key] = self._versions.get(key, 0) + 1
            return version

    def update(self, given: Mapping[str, Any]) -> None:
        """Writes several, one by one."""
        for key, value in dict(given).items():
            self.set(key, value)

    def delete(self, key: str, expected_version: int | None = None) -> bool:
        """Takes it away; its versions go on from where they were. Whether it stood. Raises Aborted / CONFLICT where
        something stands that isn't of `expected_version`."""
        with self._lock:
            stands = self.version(key)
            if stands:
                check_expected(key, expected_version, stands)
                del self._values[key]
            return bool(stands)

    def clear(self) -> None:
        """Takes all away."""
        with self._lock:
            self._values.clear()

    def version(self, key: str) -> int:
        """The version that stands; 0 where nothing does."""
        with self._lock:
            return self._versions[key] if check_key(key) in self._values else 0

    def to_dict(self) -> dict[str, Any]:
        """All values, by key."""
        return {one.key: one.value for one in self.list_values()}

    def list_values(self, prefix: str = "") -> list[WorkingValue]:
        """As `to_dict`, with versions, by key; only keys that begin so."""
        with self._lock:
            keys = sorted(key for key in self._values if key.startswith(prefix))
            return [one for key in keys if (one := self.get_value(key)) is not None]
