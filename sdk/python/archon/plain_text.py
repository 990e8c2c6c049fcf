"""Texts for people: times, durations, counts, and texts that are cut to a length."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(seconds: float) -> str:
    """Returns a time in seconds since the epoch in ISO 8601: in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """Returns a duration: 0.21 s, 12.3 s, 2 m 05 s, 3 h 07 m. From a minute on, parts of the last unit do not count."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(max(seconds, 60)), 60)
    return f"{minutes} m {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} m"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun in the singular or plural: 1 task, 2,000 tasks."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cut(text: str, limit: int) -> str:
    """Returns a text of at most `limit` characters: a longer one ends with an ellipsis in place of the rest."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
