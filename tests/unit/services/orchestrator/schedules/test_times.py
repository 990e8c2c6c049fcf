"""Times of schedules: cron in time zones, intervals, jitter, and changes of the clock."""

from __future__ import annotations

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import InvalidArgument
from archon_services.orchestrator.schedules.times import (
    Cron,
    Every,
    Once,
    Times,
    check_timing,
    delay_of,
    next_time,
    next_times,
    time_text,
    times_between,
)


def shown(expression: str, zone: str, start: str, count: int) -> list[str]:
    """Returns the times after a local time, as local times with their offsets."""
    after = datetime.fromisoformat(start)
    after = after if after.tzinfo else after.replace(tzinfo=ZoneInfo(zone))
    found = next_times(Times(Cron(expression, zone)), after.timestamp(), count)
    return [datetime.fromtimestamp(time, ZoneInfo(zone)).isoformat() for time in found]


def test_a_time_that_the_clock_skips_fires_right_after_the_change() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert shown("0 0 * * 0", "America/Santiago", "2022-09-10T00:00:00", 2) == [
        "2022-09-11T01:00:00-03:00",  # midnight does not exist
        "2022-09-18T00:00:00-03:00",
    ]


def test_skipped_times_that_move_to_the_same_minute_fire_once() -> None:
    assert shown("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00", 3) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:00:00+02:00",
        "2026-03-30T03:00:00+02:00",
    ]


def test_a_fixed_time_that_comes_twice_fires_once() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    # Neither does a process fire it again that starts in the second hour.
    assert shown("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", 1) == ["2026-10-26T02:30:00+01:00"]


def test_an_hour_that_comes_twice_has_the_times_of_stars_twice() -> None:
    assert shown("*/30 * * * *", "Europe/Helsinki", "2017-10-29T02:45:00", 5) == [
        "2017-10-29T03:00:00+03:00",
        "2017-10-29T03:30:00+03:00",
        "2017-10-29T03:00:00+02:00",
        "2017-10-29T03:30:00+02:00",
        "2017-10-29T04:00:00+02:00",
    ]


def test_weekdays_after_a_change_of_the_clock_are_all_there() -> None:
    assert shown("0 0 * * 1-5", "US/Central", "2021-03-12T00:00:00", 2) == [
        "2021-03-15T00:00:00-05:00",
        "2021-03-16T00:00:00-05:00",
    ]


@given(
    st.sampled_from(["30 2 * * *", "0 0 * * *", "*/20 * * * *", "15 1-3 * * *", "0 */2 * * *", "59 23 31 * *"]),
    st.sampled_from(["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Gaza", "UTC"]),
    st.integers(1_600_000_000, 1_900_000_000),
)
def test_times_are_the_same_from_wherever_they_are_counted(expression: str, zone: str, after: int) -> None:
    times = Times(Cron(expression, zone))
    found = next_times(times, after, 6)
    assert found == sorted(set(found)) and found[0] > after
    for before, following in itertools.pairwise(found):
        assert next_time(times, before) == following
        assert next_time(times, following - 1) == following
    assert times_between(times, after, found[-1], 100) == (found, False)


def test_intervals_are_counted_from_the_epoch_and_never_drift() -> None:
    times = Times(Every(0.1 * 30, 1.5))
    found = next_times(times, 1_700_000_000.0, 1_000)
    assert found[0] == 1_700_000_002.5 and found[-1] - found[0] == 999 * 3
    assert next_times(Times(Every(86_400, 3_600)), 0, 2) == [3_600, 90_000]


def test_of_a_long_gap_the_last_times_are_counted_and_no_others() -> None:
    for timing in (Every(1), Cron("* * * * *"), Cron("* * * * *", "Europe/Berlin")):
        found, more = times_between(Times(timing), 1_000_000.0, 1_700_000_000.0, 1_000)
        assert (len(found), more, found[-1] <= 1_700_000_000.0 < found[-1] + 61) == (1_000, True, True)
    assert times_between(Times(Cron("0 0 29 2 *")), 0.0, 1_700_000_000.0, 1_000)[1] is False


def test_start_and_end_bound_the_times_and_include_themselves() -> None:
    times = Times(Every(10), start=100.0, end=120.0)
    assert next_times(times, 0.0, 10) == [100.0, 110.0, 120.0]
    assert next_times(Times(Once(50.0)), 0.0, 10) == [50.0]
    assert next_time(Times(Once(50.0)), 50.0) is None


def test_jitter_is_the_same_each_time_and_keeps_the_order() -> None:
    times = Times(Every(10), jitter=3_600.0)
    planned = next_times(times, 0.0, 200)
    delays = [delay_of(times, "uid", time) for time in planned]
    assert delays == [delay_of(times, "uid", time) for time in planned]
    assert all(0 <= delay < 10 for delay in delays) and len(set(delays)) == 200
    assert delays != [delay_of(times, "other", time) for time in planned]


@pytest.mark.parametrize(
    "expression",
    ["* * *", "61 * * * *", "0 0 30 2 *", "0 0 31 4 *", "@reboot", "a b c d e", "", "*/0 * * * *", "0 " * 6],
)
def test_an_expression_that_never_fires_or_is_none_is_refused(expression: str) -> None:
    with pytest.raises(InvalidArgument):
        check_timing(Cron(expression))


@pytest.mark.parametrize(
    "zone", ["Europe/Berln", "../../etc/passwd", "/etc/localtime", "localtime", "Europe", "\0", "x" * 300]
)
def test_a_time_zone_that_is_not_of_the_database_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument):
        check_timing(Cron("* * * * *", zone))


def test_texts_of_times_have_the_digits_that_they_need() -> None:
    assert time_text(0.0) == "1970-01-01T00:00:00Z"
    assert time_text(1_700_000_000.25) == "2023-11-14T22:13:20.25Z"
