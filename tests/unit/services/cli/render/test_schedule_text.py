"""Times of schedules as text: the clock of the schedule, and the one of the reader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from archon_services.cli.render.schedule_text import time_in_zone

SUMMER = datetime(2026, 7, 1, 0, 30, tzinfo=UTC).timestamp()
WINTER = datetime(2026, 12, 1, 1, 30, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def london() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/London")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("moment", "zone", "text"),
    [
        (SUMMER, "Europe/Berlin", "2026-07-01 02:30:00 +02:00, here 2026-07-01 01:30:00"),
        (WINTER, "Europe/Berlin", "2026-12-01 02:30:00 +01:00, here 2026-12-01 01:30:00"),
        (SUMMER, "UTC", "2026-07-01 00:30:00 +00:00, here 2026-07-01 01:30:00"),
        (WINTER, "UTC", "2026-12-01 01:30:00"),
        (WINTER, "America/Argentina/ComodRivadavia", "2026-11-30 22:30:00 -03:00, here 2026-12-01 01:30:00"),
        (WINTER, "Africa/Monrovia", "2026-12-01 01:30:00"),
        (WINTER, "Mars/Olympus", "2026-12-01 01:30:00"),
    ],
)
def test_a_time_is_shown_by_both_clocks_if_they_differ(moment: float, zone: str, text: str) -> None:
    assert time_in_zone(moment, zone) == text
    assert len(f"  policies  {text}") <= 80
