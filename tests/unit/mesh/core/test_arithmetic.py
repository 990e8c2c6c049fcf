"""Arithmetic expressions in texts."""

from __future__ import annotations

import pytest

from archon_mesh.core.arithmetic import CLEAR_EXPRESSION, expression_in


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("What is 15 * 24?", "15 * 24"),
        ("15 x 24", "15 * 24"),
        ("15% of 200 please", "15% of 200"),
        ("(2 + 3) * 4", "(2 + 3) * 4"),
        ("1,500 divided by 3", "1500 / 3"),
        ("6 times 7", "6 * 7"),
        ("15-3", "15-3"),
        ("1 + 2 + 3 and 4", "1 + 2 + 3"),
        ("3 facts about 360", ""),
        ("2026-11-23T10:00", "2026-11-23"),
        ("nothing", ""),
    ],
)
def test_arithmetic_is_found_in_a_text(text: str, expression: str) -> None:
    assert expression_in(text) == expression


@pytest.mark.parametrize("text", ["2026-11-23", "a trip of 5-10 days", "the A320-200", "3 facts about 360"])
def test_a_date_a_range_or_a_number_is_no_clear_expression(text: str) -> None:
    assert not CLEAR_EXPRESSION.search(text)


@pytest.mark.parametrize("text", ["15 * 24", "15*24", "5/3", "100 - 20", "15% of 200", "6 times 7"])
def test_an_operator_makes_a_clear_expression(text: str) -> None:
    assert CLEAR_EXPRESSION.search(text)
