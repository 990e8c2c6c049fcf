"""Values that all agents of a run share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

_MISSING = object()


class GlobalStorage:
    """Values by key, each with a version that counts its writes from 1. Safe to use from threads.

    `on_write` is called after each write with the key, the value and its version, and after a removal with the key,
    None and 0.
    """

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(initial or {})
        self._versions = dict.fromkeys(self._values, 1)
        self._lock = threading.RLock()
        self.on_write: Callable[[str, Any, int], None] | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value itself, not a copy, or `default` if the key has none."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> int:
        """Writes a value and returns its new version."""
        with self._lock:
            self._values[key] = value
            version = self._versions[key] = self._versions.get(key, 0) + 1
            self._notify(key, value, version)
            return version

    def update(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Writes several values, each with a new version, while no other thread writes."""
        with self._lock:
            for key, value in {**(values or {}), **more}.items():
                self.set(key, value)

    def compute(self, key: str, step: Callable[[Any], Any], default: Any = None) -> Any:
        """Atomically replaces the value by `step(value)`, and returns the new value."""
        with self._lock:
            value = step(self._values.get(key, default))
            self.set(key, value)
            return value

    def pop(self, key: str, default: Any = None) -> Any:
        """Removes and returns a value. A later write continues its versions."""
        with self._lock:
            value = self._values.pop(key, _MISSING)
            if value is _MISSING:
                return default
            self._notify(key, None, 0)
            return value

    def clear(self) -> None:
        """Removes all values, and notifies the watchers of each; versions go on counting."""
        with self._lock:
            for key in list(self._values):
                self.pop(key)

    def version(self, key: str) -> int:
        """Returns the number of writes so far; 0 if the key was never written."""
        return self._versions.get(key, 0)

    def to_dict(self) -> dict[str, Any]:
        """Returns a copy of all values."""
        with self._lock:
            return dict(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def _notify(self, key: str, value: Any, version: int) -> None:
        if self.on_write is not None:
            self.on_write(key, value, version)
