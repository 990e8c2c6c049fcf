"""What a check found: well, doubtful or wrong; and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `archon doctor`. `message` is a sentence without its full stop, `hint` what to do about it."""

    check: str
    level: Level
    message: str
    hint: str = ""


def ok(check: str, message: str) -> Finding:
    """It is well."""
    return Finding(check, "ok", message)


def warning(check: str, message: str, hint: str) -> Finding:
    """It works, but not as it should, or not for long."""
    return Finding(check, "warning", message, hint)


def problem(check: str, message: str, hint: str) -> Finding:
    """Something doesn't work because of it."""
    return Finding(check, "problem", message, hint)
