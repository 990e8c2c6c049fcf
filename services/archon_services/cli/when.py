"""Times and durations as people write them."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Final

from archon_services.cli.errors import USAGE, CliError

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])")


def seconds_of(text: str, option: str) -> float:
    """Returns the seconds of a duration such as 90s, 30m, 2h or 7d. Raises CliError."""
    if (match := _DURATION.fullmatch(text.strip())) is None:
        raise CliError(f"{option} {text!r} is no duration: expected 90s, 30m, 2h or 7d", code=USAGE)
    return float(match[1]) * _UNITS[match[2]]


def time_of(text: str, option: str) -> float:
    """Returns the time of a text in ISO 8601, local unless it has an offset or Z, in seconds since the epoch. Raises
    CliError."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        hint = "expected 2026-01-31T12:00 (local time), or with an offset as in 2026-01-31T12:00+01:00"
        raise CliError(f"{option} {text!r} is no time: {hint}", code=USAGE) from None


def later(at: str, in_: str) -> float | None:
    """Returns the time of --at or --in, in seconds since the epoch; None if there is neither. Raises CliError if there
    are both, or the time has passed."""
    if at and in_:
        raise CliError("--at and --in exclude each other", code=USAGE)
    if in_:
        return time.time() + seconds_of(in_, "--in")
    if not at:
        return None
    found = time_of(at, "--at")
    if found <= time.time():
        raise CliError(f"--at {at} has passed", code=USAGE)
    return found


def duration_text(seconds: float) -> str:
    """Returns a duration in its largest whole unit, such as 2h or 90s."""
    for unit, length in reversed(_UNITS.items()):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"
