"""One row of docs/limits.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """One row: `value` is a text with references to constants, `above` what happens above it; `tests` show it, and are
    not on the page."""

    what: str
    value: str
    above: str
    tests: list[str]
