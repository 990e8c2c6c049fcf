"""The requests of an arbiter, and the reading of replies as models write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon_mesh.node.arbiter.conflict import Decided, positions_of
from archon_mesh.node.arbiter.requests import (
    MAX_SHOWN,
    check_of,
    check_request,
    choice_of,
    choice_schema,
    method_request,
    object_in,
    person_request,
    redo_request,
    with_method,
)

FIRST, SECOND = positions_of([("s-1", "anna", "12", ()), ("s-2", "berta", "14", ())], "")


@pytest.mark.parametrize(
    ("reply", "method", "now"),
    [
        ('{"method": "counted", "answer": "14"}', "counted", "14"),
        ('Sure:\n```json\n{"method": "counted", "answer": 14}\n```', "counted", "14"),
        ('{"method": ["a", "b"], "answer": ""}', '["a", "b"]', "12"),
        ("I have counted them.", "I have counted them.", "12"),
        ('{"method": "x", "answer": "' + "9" * 30_000 + '"}', "x", "12"),
    ],
)
def test_a_reply_about_the_method_may_change_the_answer(reply: str, method: str, now: str) -> None:
    position = with_method(FIRST, reply)
    assert (position.method, position.now, position.said) == (method, now, "12")


@pytest.mark.parametrize(
    ("reply", "is_right"),
    [
        ("PASS", True),
        ("**Fail** - too few", False),
        ('{"verdict": "pass"}', True),
        ("It may PASS.", None),
        ("", None),
        ("passable", None),
    ],
)
def test_a_check_passes_fails_or_says_neither(reply: str, is_right: bool | None) -> None:
    assert check_of(reply) is is_right


@pytest.mark.parametrize(
    ("reply", "winner", "reason"),
    [
        ('{"choice": "s-2", "reason": "exact"}', "s-2", "the model has chosen s-2 of berta: exact"),
        ("14", "s-2", "the model has chosen s-2 of berta"),
        ('{"choice": "none", "reason": "both odd"}', "", "the model says that none is right: both odd"),
        ("None", "", "the model says that none is right"),
        ('{"choice": "s-7"}', "", "the model has chosen none of the answers: s-7"),
        ('{"choice": null}', "", "the model has chosen none of the answers: "),
    ],
)
def test_a_choice_decides_if_it_names_an_answer(reply: str, winner: str, reason: str) -> None:
    made = choice_of("model", "the model", reply, [FIRST, SECOND])
    if isinstance(made, Decided):
        assert (made.winner, made.reason, made.text) == (winner, reason, "14")
    else:
        assert (made, winner) == (reason, "")


def test_requests_show_answers_with_their_roles_and_what_is_known() -> None:
    known = replace(FIRST, now="13", method="counted", check="FAIL")
    assert "s-2 of berta: 14" in method_request("How many?", FIRST, [SECOND])
    assert "as its author says:\ncounted" in check_request("How many?", known, [SECOND])
    shown = person_request("How many?", [known, SECOND])
    assert "s-1 of anna: 13\n  changed; before: 12\n  found by: counted\n  a check of it: FAIL" in shown
    again = redo_request("How many?", SECOND, Decided("model", "s-1", "13", "it is exact"), [known])
    assert "Why: it is exact\n\nHow s-1 of anna found it:\ncounted" in again


def test_long_answers_are_cut_in_requests() -> None:
    long = replace(SECOND, now="x" * 1_000_000)
    assert len(method_request("How many?" * 100_000, long, [long])) < 4 * MAX_SHOWN


def test_the_schema_of_a_choice_names_the_steps() -> None:
    assert choice_schema([FIRST, SECOND])["properties"]["choice"]["enum"] == ["s-1", "s-2", "none"]


@pytest.mark.parametrize("text", ["", "}{", "{", "{x}", "[1]"])
def test_a_text_without_an_object_has_none(text: str) -> None:
    assert object_in(text) is None
