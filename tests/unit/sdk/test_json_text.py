"""Texts that should be JSON."""

from __future__ import annotations

import pytest

from archon.json_text import json_object, json_or

TOO_DEEP = "[" * 100_000


@pytest.mark.parametrize("text", ["", "no", '{"a": 1', TOO_DEEP])
def test_a_text_that_is_no_json_has_the_other_value(text: str) -> None:
    assert json_or(text) is None
    assert json_or(text, text) == text
    assert json_object(text) is None


def test_a_json_text_has_its_value() -> None:
    assert json_or('[1, "a", null]', "never") == [1, "a", None]
    assert json_or("null", "never") is None


@pytest.mark.parametrize("text", ["[]", "1", '"{}"', "null"])
def test_a_value_that_is_no_object_is_none(text: str) -> None:
    assert json_object(text) is None


def test_an_object_is_returned() -> None:
    assert json_object(' {"a": {}} ') == {"a": {}}
