"""Arguments that are named like secrets are masked where calls are shown; others stay as the model wrote them."""

from __future__ import annotations

import json

import pytest

from archon_mesh.core.masking import MASK, forms_of, masked_arguments, masked_value


@pytest.mark.parametrize(
    "name", ["password", "PASSWORD", "db_password", "dbPassword", "api_key", "apiKey", "client-secret", "authToken"]
)
def test_a_member_named_like_a_secret_is_masked(name: str) -> None:
    arguments = {"door": "north", "more": [{name: "hunter2"}], name: 12345}
    shown = masked_arguments(json.dumps(arguments))
    assert json.loads(shown) == {"door": "north", "more": [{name: MASK}], name: MASK}
    assert masked_value(arguments) == json.loads(shown)


@pytest.mark.parametrize(
    "text",
    [
        '{"door":  "north"}',
        '{"passwordless": "x"}',
        '{"max_tokens": 7}',
        '{"page_token": "x"}',
        '{"key": "title"}',
        '{"password": ""}',
        '{"show_password": true}',
        "",
        "password",
        '{"password": "cut',
        '["password", "x"]',
        "[" * 100_000 + '"password"',
    ],
)
def test_other_arguments_stay_as_they_were_written(text: str) -> None:
    assert masked_arguments(text) == text


def test_a_name_with_escapes_is_masked() -> None:
    assert json.loads(masked_arguments('{"p\\u0061ssword": "hunter2"}')) == {"password": MASK}


def test_a_value_that_is_nested_too_deeply_is_not_shown() -> None:
    value: object = "hunter2"
    for _ in range(5_000):
        value = {"a": value}
    assert masked_value(value) == MASK


def test_the_forms_of_a_secret_are_those_in_which_others_repeat_it() -> None:
    assert set(forms_of("a b+c/d=e")) == {
        "a b+c/d=e",
        "a%20b%2Bc%2Fd%3De",
        "a%20b%2Bc/d%3De",
        "a+b%2Bc%2Fd%3De",
        "YSBiK2MvZD1l",
    }
    assert forms_of("short") == ["short"]
