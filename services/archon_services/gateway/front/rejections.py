"""Lines of the log about callers who are refused, with the address that they have come from."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

_log = logging.getLogger(__name__)

LOGGED: Final = 10
"""Refusals in a minute that have a line; the others are counted."""

_MINUTE: Final = 60.0
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_SECRET: Final = ("/shared/", "/login/")
"""Paths whose rest is a secret."""

_MAX_SHOWN: Final = 120
"""Characters of a path or an address in a line."""


class RefusalLog:
    """Writes a few lines a minute. `now` returns monotonic seconds."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until = -math.inf
        self._count = 0

    def note(self, scope: Mapping[str, Any], status: int) -> None:
        """Takes note of a response to a request."""
        if status not in _REFUSED:
            return
        now = self._now()
        if now >= self._until:
            if self._count > LOGGED:
                _log.warning("refused %d further requests in a minute", self._count - LOGGED)
            self._until, self._count = now + _MINUTE, 0
        self._count += 1
        if self._count <= LOGGED:
            client = scope.get("client") or ("unknown", 0)
            _log.warning("refused %s %s of %s: %d", scope["method"], _path(scope["path"]), _shown(client[0]), status)


def _path(path: str) -> str:
    return next((f"{start}..." for start in _SECRET if path.startswith(start)), _shown(path))


def _shown(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:_MAX_SHOWN])
