"""Date and time as a tool."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools.builtin import DateAndTime

TOOL = DateAndTime(lambda: datetime(2026, 3, 28, 12, 30, 15, tzinfo=UTC))


@pytest.mark.parametrize(
    ("arguments", "iso", "weekday", "week"),
    [
        ({}, "2026-03-28T12:30:15+00:00", "Saturday", 13),
        ({"timezone": "Europe/Berlin"}, "2026-03-28T13:30:15+01:00", "Saturday", 13),
        ({"timezone": "Europe/Berlin", "days": 1}, "2026-03-29T13:30:15+02:00", "Sunday", 13),
        ({"timezone": "Asia/Kolkata", "days": -28}, "2026-02-28T18:00:15+05:30", "Saturday", 9),
        ({"days": 300}, "2027-01-22T12:30:15+00:00", "Friday", 3),
    ],
)
async def test_the_time_is_that_of_the_zone_and_day(arguments: Any, iso: str, weekday: str, week: int) -> None:
    told = await TOOL.execute(**arguments)
    assert (told["iso"], told["weekday"], told["week"]) == (iso, weekday, week)
    assert f"{told['date']}T{told['time']}" == iso[:19]


@pytest.mark.parametrize("zone", ["Mars/Phobos", "../../etc/passwd", "/etc/localtime", "x" * 300, "a\0b"])
async def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument, match="unknown time zone"):
        await TOOL.execute(timezone=zone)


async def test_a_day_out_of_range_is_refused() -> None:
    assert "maximum" in str(TOOL.validate_args({"days": 10**9}))
    with pytest.raises(InvalidArgument, match="out of range"):
        await DateAndTime(lambda: datetime(9999, 12, 31, tzinfo=UTC)).execute(days=2)
