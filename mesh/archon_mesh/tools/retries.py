"""When a call of a tool is made again: after a failure that may pass, with exponential backoff and full jitter; after a
timeout once, with a longer limit.

Source: "Exponential Backoff And Jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from archon_mesh.tools.failures import ToolFailure
from archon_mesh.tools.result import ToolResultStatus
from archon_mesh.tools.tool import Tool

RETRIES: Final = 2
"""How often a call of an idempotent tool is made again, unless the tool declares another number."""

TIMEOUT_FACTOR: Final = 2.0
"""How much longer the attempt after a timeout may take."""

BASE: Final = 0.5
MAX_PAUSE: Final = 8.0
"""Seconds: the longest pause before the second attempt, and before any; also of a delay that the failure asks for."""


def retries_of(tool: Tool) -> int:
    """Returns how often a call may be made again. A repeated call of a tool that is not idempotent might act twice,
    unless the tool says by a number that it does not."""
    if math.isinf(tool.timeout or 0.0):
        return 0
    if tool.retries is not None:
        return tool.retries
    return RETRIES if tool.idempotent else 0


class Retries:
    """The retries of one call: at most `left`, the first attempt limited to `seconds`."""

    def __init__(self, left: int, seconds: float, random: Callable[[], float]) -> None:
        self.seconds = seconds
        """The time limit of the next attempt."""
        self.has_timed_out = False
        self._left = left
        self._random = random
        self._number = 0

    def pause_after(self, failure: ToolFailure, status: ToolResultStatus) -> float | None:
        """Returns the seconds to wait before the next attempt, or None if there is none."""
        if self._left < 1 or not failure.is_transient:
            return None
        if status is ToolResultStatus.TIMEOUT:
            if self.has_timed_out:
                return None
            self.has_timed_out = True
            self.seconds *= TIMEOUT_FACTOR
        delay = failure.retry_delay or 0.0
        if delay > MAX_PAUSE:
            return None  # the caller decides whether to wait that long
        self._left -= 1
        longest = min(MAX_PAUSE, BASE * 2.0**self._number)
        self._number += 1
        return delay + self._random() * longest
