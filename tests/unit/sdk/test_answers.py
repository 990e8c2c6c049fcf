"""Which answers say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.answers import agree, confidence_of, field_of, supports


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris", " paris. "),
        ("**Paris**", "`Paris`"),
        ("100", "105"),
        ("95", "100"),
        ("-95", "\u2212100"),
        ("1,234.5", "1234.5"),
        ("1_000", "1 000"),
        ("12 %", "12%"),
        ("$12.00", "$ 12"),
        ("3.2 million", "3.1 Million"),
        ("1e3", "1000"),
        ("0", "0.0"),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('"yes"', "Yes"),
        ("two  words", "two\nwords"),
    ],
)
def test_answers_that_say_the_same(one: str, other: str) -> None:
    assert agree(one, other)
    assert agree(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris", "Lyon"),
        ("100", "106"),
        ("100", "-100"),
        ("0", "0.01"),
        ("12 %", "12"),
        ("$12", "€12"),
        ("5 km", "5 miles"),
        ('{"a": 1}', '{"a": 2}'),
        ("", "nothing"),
        ("1.2.3", "1.2.4"),
        ("4 cats and 2 dogs", "4 cats and 3 dogs"),
    ],
)
def test_answers_that_differ(one: str, other: str) -> None:
    assert not agree(one, other)
    assert not agree(other, one)


def test_a_number_between_two_that_differ_has_the_support_of_both() -> None:
    assert supports(["100", "104", "108"], [1.0, 1.0, 1.0]) == [2.0, 3.0, 2.0]


def test_support_is_the_weight_of_those_that_agree() -> None:
    assert supports(["a", "b", "A"], [0.5, 2.0, 0.25]) == [0.75, 2.0, 0.75]


@given(st.lists(st.text() | st.floats().map(str) | st.integers().map(str), min_size=1, max_size=20))
def test_any_texts_are_compared_and_each_supports_itself(texts: list[str]) -> None:
    found = supports(texts, [1.0] * len(texts))
    assert all(1.0 <= value <= len(texts) for value in found)


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_agreement_of_numbers_is_mutual(one: float, other: float) -> None:
    assert agree(repr(one), repr(other)) == agree(repr(other), repr(one))


def test_a_field_of_a_json_answer_is_compared_in_its_place() -> None:
    assert field_of('{"answer": "Paris", "why": "I know"}', "answer") == "Paris"
    assert field_of('{"answer": [2, 1]}', "answer") == "[2, 1]"
    assert field_of('{"other": 1}', "answer") == '{"other": 1}'
    assert field_of("Paris", "answer") == "Paris"


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ('{"confidence": 0.4}', 0.4),
        ('{"confidence": 7}', 1.0),
        ('{"confidence": -1}', 0.0),
        ('{"confidence": true}', 1.0),
        ('{"confidence": "high"}', 1.0),
        ('{"confidence": NaN}', 1.0),
        ("sure", 1.0),
    ],
)
def test_the_confidence_of_an_answer(text: str, confidence: float) -> None:
    assert confidence_of(text) == confidence


def test_very_long_answers_are_compared_by_their_beginnings() -> None:
    assert agree("x" * 3_000_000, "X" * 3_000_001)
