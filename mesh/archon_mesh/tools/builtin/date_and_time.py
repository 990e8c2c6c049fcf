"""Date and time as a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.tools.tool import Tool

MAX_DAYS: Final = 366_000
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""`strftime` uses the names of the process's locale."""

_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "timezone": {"type": "string", "description": "an IANA name such as Europe/Berlin; UTC by default"},
        "days": {
            "type": "integer",
            "minimum": -MAX_DAYS,
            "maximum": MAX_DAYS,
            "description": "days to add to the current time, or below 0 to take from it",
        },
    },
    "additionalProperties": False,
}


class DateAndTime(Tool):
    """Tells the current date and time. `now` returns the time in UTC, for tests."""

    name = "date_and_time"
    description = "Tells the current date and time in a time zone, or those some days before or after."
    parameters_schema = _PARAMETERS

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now

    @override
    async def execute(self, **kwargs: Any) -> dict[str, Any]:
        """Returns date, time, weekday, ISO week, time zone and the ISO 8601 text. Raises InvalidArgument for an unknown
        time zone, or a time that is out of range."""
        name = kwargs.get("timezone") or "UTC"
        try:
            zone = ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            raise InvalidArgument(
                f"unknown time zone {name!r}; use an IANA name such as Europe/Berlin or UTC"
            ) from None
        try:
            # By the calendar: a day later it is the same time of day, also if a clock change lies in between.
            local = self._now().astimezone(zone) + timedelta(days=kwargs.get("days", 0))
        except OverflowError:
            raise InvalidArgument("the date is out of range: years 1 to 9999") from None
        return {
            "date": local.date().isoformat(),
            "time": local.time().isoformat("seconds"),
            "weekday": _WEEKDAYS[local.weekday()],
            "week": local.isocalendar().week,
            "timezone": name,
            "iso": local.isoformat(timespec="seconds"),
        }
