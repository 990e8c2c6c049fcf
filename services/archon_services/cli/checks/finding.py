"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `archon doctor`: `message` without a full stop, and `hint` with the remedy."""

    check: str
    level: Level
    message: str
    hint: str = ""


def ok(check: str, message: str) -> Finding:
    """Returns a finding that needs no action."""
    return Finding(check, "ok", message)


def warning(check: str, message: str, hint: str) -> Finding:
    """Returns a finding about something that works, but not as well or as long as it should."""
    return Finding(check, "warning", message, hint)


def problem(check: str, message: str, hint: str) -> Finding:
    """Returns a finding about something that prevents Archon from working."""
    return Finding(check, "problem", message, hint)
