"""What a hierarchy of agents shares within a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

_NOTHING = object()


class GlobalStorage:
    """Values by name, each with a version that counts its writes from 1. Tools may use it from threads. `on_write` is
    called after each write with the name, the value and its version; where a value was taken away, with None and 0."""

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(initial or {})
        self._versions = dict.fromkeys(self._values, 1)
        self._lock = threading.RLock()
        self.on_write: Callable[[str, Any, int], None] | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> int:
        """Writes it; the version that it has now."""
        with self._lock:
            self._values[key] = value
            version = self._versions[key] = self._versions.get(key, 0) + 1
            self._tell(key, value, version)
            return version

    def update(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Writes several."""
        with self._lock:
            for key, value in {**(values or {}), **more}.items():
                self.set(key, value)

    def compute(self, key: str, step: Callable[[Any], Any], default: Any = None) -> Any:
        """Writes `step(value)` in place of the value, with nobody in between; what it gave."""
        with self._lock:
            made = step(self._values.get(key, default))
            self.set(key, made)
            return made

    def pop(self, key: str, default: Any = None) -> Any:
        """Takes it away; its versions go on from where they were."""
        with self._lock:
            value = self._values.pop(key, _NOTHING)
            if value is _NOTHING:
                return default
            self._tell(key, None, 0)
            return value

    def clear(self) -> None:
        """Takes all away."""
        with self._lock:
            for key in list(self._values):
                self.pop(key)

    def version(self, key: str) -> int:
        """How often it was written; 0: never."""
        return self._versions.get(key, 0)

    def to_dict(self) -> dict[str, Any]:
        """A copy of all of it."""
        with self._lock:
            return dict(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def _tell(self, key: str, value: Any, version: int) -> None:
        if self.on_write is not None:
            self.on_write(key, value, version)
