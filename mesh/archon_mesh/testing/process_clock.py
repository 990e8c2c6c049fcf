"""The monotonic clock of this process, which tests move on.

It takes the place of `time.monotonic`, which event loops and all parts of Archon read. It only goes forward: when a
test has ended the clock stays where it is, because timers and deadlines that were set by it may still be waiting.
`time.time`, `datetime`, other processes, and the deadlines of gRPC calls in progress do not follow it, and neither does
code that has imported the function itself (`from time import monotonic`), as the threads of Python do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Final

from archon.errors import FailedPrecondition

_machine: Callable[[], float] = time.monotonic

_moved: tuple[float, float, float] = (0.0, 0.0, 0.0)
"""The last move: its time on this clock, its time on the machine's clock, and how many seconds of the machine the clock
then stands still. One tuple: other threads read the clock, too."""


def now() -> float:
    """Returns the time of the clock in seconds: `time.monotonic` once it is installed."""
    at, since, still = _moved
    return at + max(0.0, _machine() - since - still)


_own: Final = (now,)
"""The clock. A library that freezes the time replaces the names of modules that it takes for the clock, `now` too."""


def machine() -> float:
    """Returns the seconds of the machine's own clock."""
    return _machine()


def ahead() -> float:
    """Returns the seconds by which the clock is ahead of the machine's."""
    return now() - _machine()


def install() -> None:
    """Replaces `time.monotonic`. Idempotent. Raises FailedPrecondition if another library has replaced it."""
    global _machine, _moved
    if installed():
        return
    if not isinstance(time.monotonic, BuiltinFunctionType):
        raise FailedPrecondition(
            f"the clock cannot be moved: time.monotonic is replaced by {_name(time.monotonic)}, as libraries do that "
            "freeze the time; stop them first"
        )
    _machine = time.monotonic
    started = _machine()
    _moved = (started, started, 0.0)
    time.monotonic = _own[0]


def installed() -> bool:
    """Whether `time.monotonic` is this clock."""
    return time.monotonic is _own[0]


def move_to(at: float, *, still: float = 0.0) -> None:
    """Moves the clock on to `at`, at least by the smallest step; then it stands still for `still` seconds of the
    machine, and runs on."""
    global _moved
    before = now()
    _moved = (max(at, math.nextafter(before, math.inf)), _machine(), still)


def machine_seconds_until(at: float) -> float:
    """Returns the seconds of the machine after which the clock shows `at` if it is not moved."""
    shown, since, still = _moved
    return max(0.0, at - shown + still - (_machine() - since))


def _name(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
