"""Prose on a terminal."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from archon_services.cli.wrapping import wrapped


class _Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("error: one two three four five six seven eight", ["error: one two three four five six seven", "  eight"]),
        ("short\nhint: also short", ["short", "hint: also short"]),
        (f"in {'x' * 60} it lies", ["in", f"  {'x' * 60}", "  it lies"]),
        ("  a  b", ["  a  b"]),
        ("", [""]),
    ],
)
def test_prose_on_a_terminal_wraps_at_words(text: str, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", _Screen())
    assert wrapped(text).split("\n") == lines


def test_without_a_terminal_prose_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", StringIO())
    assert wrapped("word " * 30, stderr=True) == "word " * 30
