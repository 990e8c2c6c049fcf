"""The times of a schedule. Times and durations are in seconds, times in wall seconds since the epoch.

Cron expressions follow Debian's cron at changes of the clock, as the library cronsim has it: a job at a fixed time of
day fires once a day, a time that the clock skips is made up for right after the change, and a time that comes twice
fires the first time; an expression whose minute or hour begins with `*` follows the clock as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from archon.errors import InvalidArgument
from archon_mesh.core.value import value

MIN_INTERVAL: Final = 1.0
MAX_TIME: Final = 253_370_764_800.0
"""The year 9999: no time is later."""

MAX_EXPRESSION: Final = 200
"""Characters of a cron expression, and of the name of a time zone."""

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NOT_IANA: Final = frozenset({"localtime", "posixrules", "Factory"})
_MICRO: Final = 1_000_000


@value
class Cron:
    """A cron expression of five fields, or an alias, in a time zone of the IANA database."""

    expression: str
    zone: str = "UTC"


@value
class Every:
    """An interval, counted from the epoch, plus an offset below it."""

    interval: float
    offset: float = 0.0


@value
class Once:
    """One time."""

    time: float


Timing = Cron | Every | Once


@value
class Times:
    """The times of a schedule: the times of `timing` from `start` to `end`, each delayed by up to `jitter`. The
    schedule ends after `max_runs` runs; 0: no limit."""

    timing: Timing
    start: float = 0.0
    end: float = MAX_TIME
    jitter: float = 0.0
    max_runs: int = 0


def check_timing(timing: Timing) -> None:
    """Raises InvalidArgument if an expression or a time zone is invalid, or an interval is out of its bounds."""
    if isinstance(timing, Every):
        if not MIN_INTERVAL <= timing.interval <= MAX_TIME or not 0 <= timing.offset < timing.interval:
            raise InvalidArgument(f"an interval is at least {MIN_INTERVAL:g} s, and its offset below it")
    elif isinstance(timing, Once):
        if not 0 < timing.time <= MAX_TIME:
            raise InvalidArgument("the time must be after 1970 and before 9999")
    else:
        _check_cron(timing)


def _check_cron(cron: Cron) -> None:
    from cronsim import CronSim, CronSimError

    if max(len(cron.expression), len(cron.zone)) > MAX_EXPRESSION:
        raise InvalidArgument(f"a cron expression has at most {MAX_EXPRESSION} characters")
    fields = _fields(cron.expression)
    if len(fields.split()) != 5:
        raise InvalidArgument(
            f"invalid cron expression {cron.expression!r}: expected five fields (minute, hour, day, month, day of the "
            f"week), or one of {', '.join(ALIASES)}"
        )
    try:
        CronSim(fields, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidArgument(f"invalid cron expression {cron.expression!r}: {str(error).lower()}") from None
    _zone(cron.zone)


def _fields(expression: str) -> str:
    return ALIASES.get(expression.strip().lower(), expression)


@lru_cache(maxsize=512)
def _zone(name: str) -> tzinfo:
    """Returns a time zone. Raises InvalidArgument if there is none of this name."""
    if name == "UTC":
        return UTC
    try:
        if name in _NOT_IANA:
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        hint = "expected a name of the IANA database such as Europe/Berlin"
        raise InvalidArgument(f"unknown time zone {name!r}: {hint}") from None


def next_time(times: Times, after: float) -> float | None:
    """Returns the first time after `after`, None if there is none. Raises InvalidArgument as `check_timing` does."""
    return next(_all(times, after), None)


def next_times(times: Times, after: float, limit: int) -> list[float]:
    """Returns the first times after `after`, at most `limit`."""
    return list(islice(_all(times, after), limit))


def times_between(times: Times, after: float, until: float, limit: int) -> tuple[list[float], bool]:
    """Returns the times after `after` up to `until`, in order, the last `limit` of them, and whether there are more.

    Looks back from `until` in spans that double: the work does not grow with the number of times that passed."""
    span = 60.0
    while True:
        start = max(after, until - span)
        found = list(_until(_all(times, start), until))
        if start <= after or len(found) > limit:
            return found[-limit:], len(found) > limit
        span *= 2


def _until(found: Iterator[float], until: float) -> Iterator[float]:
    for time in found:
        if time > until:
            return
        yield time


def _all(times: Times, after: float) -> Iterator[float]:
    """Yields the times after `after`, in order, each once."""
    start = max(after, times.start - 1 / _MICRO)
    for time in _of_timing(times.timing, start):
        if time > times.end:
            return
        yield time


def _of_timing(timing: Timing, after: float) -> Iterator[float]:
    if isinstance(timing, Once):
        return iter([timing.time] if timing.time > after else [])
    return _of_interval(timing, after) if isinstance(timing, Every) else _of_cron(timing, after)


def _of_interval(every: Every, after: float) -> Iterator[float]:
    interval, offset = round(every.interval * _MICRO), round(every.offset * _MICRO)
    number = (round(after * _MICRO) - offset) // interval + 1
    while (time := (number * interval + offset) / _MICRO) < MAX_TIME:
        if time > after:
            yield time
        number += 1


def _of_cron(cron: Cron, after: float) -> Iterator[float]:
    from cronsim import CronSim

    found = CronSim(_fields(cron.expression), datetime.fromtimestamp(int(after), _zone(cron.zone)))
    last = after
    # In the hour that comes twice cronsim begins with the first one, whose times may be over; and times that the clock
    # skips may be moved to the same minute as another one.
    try:
        for moment in found:
            if (time := moment.timestamp()) > last:
                last = time
                yield time
    except OverflowError:
        return  # the year 10,000


def delay_of(times: Times, seed: str, planned: float) -> float:
    """Returns by how much a time is delayed: the same on each replica, and not beyond the next time."""
    if not times.jitter:
        return 0.0
    digest = hashlib.sha256(f"{seed}/{planned:.6f}".encode()).digest()
    share = int.from_bytes(digest[:6], "big") / 2**48
    following = next_time(times, planned)
    most = times.jitter if following is None else min(times.jitter, following - planned)
    return round(share * most, 6)


def time_text(time: float) -> str:
    """Returns a time as RFC 3339 has it, in UTC, with as many digits as it needs."""
    moment = datetime.fromtimestamp(round(time * _MICRO) // _MICRO, UTC)
    micro = round(time * _MICRO) % _MICRO
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{micro:06d}".rstrip("0") if micro else "") + "Z"
