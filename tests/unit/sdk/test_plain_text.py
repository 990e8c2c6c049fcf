"""Times, durations, counts and cut texts as people read them."""

from __future__ import annotations

import pytest

from archon.plain_text import counted, cut, duration, iso_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 s"),
        (9.994, "9.99 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 m 00 s"),
        (119.7, "1 m 59 s"),
        (3_599.6, "59 m 59 s"),
        (3_600.0, "1 h 00 m"),
        (11_220.0, "3 h 07 m"),
    ],
)
def test_a_duration_has_digits_by_its_length(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_count_has_its_noun_in_singular_or_plural() -> None:
    assert [counted(number, "task") for number in (0, 1, 2_000)] == ["0 tasks", "1 task", "2,000 tasks"]


def test_a_cut_text_has_exactly_the_limit() -> None:
    assert (cut("abcd", 4), cut("abcde", 4), len(cut("x" * 100, 7))) == ("abcd", "abc…", 7)


def test_a_time_is_in_utc_to_the_millisecond() -> None:
    assert iso_time(1_700_000_000.1239) == "2023-11-14T22:13:20.123Z"
