"""Versions: numeric order, patterns."""

from __future__ import annotations

import pytest

from archon_services.common.versions import version_key, version_matches


@pytest.mark.parametrize(("older", "newer"), [("1.9", "1.10"), ("", "0.0.1"), ("1.2", "1.2.1"), ("9", "10")])
def test_versions_compare_numerically(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_trailing_zeros_do_not_matter() -> None:
    assert version_key("1.0.0") == version_key("1")


@pytest.mark.parametrize(
    ("version", "pattern", "expected"),
    [
        ("1.2", "", True),
        ("", "", True),
        ("", "1", False),
        ("1.0", "1", True),
        ("1.2", "1.2.0", True),
        ("1.2", "1.*", True),
        ("1", "1.0.*", True),
        ("1.20", "1.2.*", False),
        ("2.1", "1.*", False),
    ],
)
def test_pattern_matches_numbers(version: str, pattern: str, expected: bool) -> None:
    assert version_matches(version, pattern) is expected
