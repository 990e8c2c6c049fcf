"""Run ids that sort by the time of their creation."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import Final

_COUNTER_BITS: Final = 16
_FORM: Final = re.compile(r"[0-7][0-9a-f]{31}")


class RunIds:
    """Makes run ids of 32 hex digits: milliseconds (48 bits), a counter (16 bits), and 64 random bits of their own: a
    caller who knows some ids cannot guess another.

    A store keeps runs sorted by id: ids that grow with time go to the right edge of its B-tree, whose pages are in
    memory.
    """

    def __init__(self, wall: Callable[[], float] = time.time, *, after: str = "") -> None:
        """`wall` gives wall seconds; ids grow even if it goes back. They are greater than `after`, the last id of an
        earlier process, if that has this form."""
        self._wall = wall
        self._last = int(after[:16], 16) if _FORM.fullmatch(after) else 0

    def next(self) -> str:
        """Returns an id that is greater than all before it in this process."""
        self._last = max(self._last + 1, int(self._wall() * 1000) << _COUNTER_BITS)
        return f"{self._last:016x}{secrets.token_hex(8)}"
