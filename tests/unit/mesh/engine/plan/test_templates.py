"""Templates in the arguments of subtasks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from archon_mesh.engine.plan import ArgumentsTooLarge, MissingKey, SubTaskStatus, fill_arguments, template_values
from archon_mesh.engine.plan.templates import MAX_CHARACTERS, MAX_DEPTH
from tests.unit.mesh.engine.plan.plans import step, task_of

RESULTS = {
    "1": 360,
    "flight": {"price": 120.5, "legs": [{"to": "Rome"}]},
    "text": '{"city": "Oslo"}',
    "a.b": "dotted",
    "two words": [1, 2],
    "umlaut": {"é": 1},
}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("{1}", 360),
        ("{flight}", {"price": 120.5, "legs": [{"to": "Rome"}]}),
        ("facts about {1}", "facts about 360"),
        ("{flight.price}", 120.5),
        ("to {flight.legs.0.to}!", "to Rome!"),
        ("{text.city}", "Oslo"),
        ("{a.b}", "dotted"),
        ("{two words}", [1, 2]),
        ("{1} and {two words}", "360 and [1, 2]"),
        ("{{1}}", "{1}"),
        ("{{{1}}}", "{360}"),
        ('{{"n": {1}}}', '{"n": 360}'),
        ('{"a": {"b": {"c": 1}}}', '{"a": {"b": {"c": 1}}}'),
        ("{}", "{}"),
        ("{{a}} and {{b}}", "{a} and {b}"),
        ("{{{{a}}}}", "{{a}}"),
        ("}} {{a}} }}", "}} {a} }}"),
        ("of {umlaut}", 'of {"é": 1}'),
        ("a { b } c", "a { b } c"),
        (["{1}", {"deep": "{1}"}], [360, {"deep": 360}]),
        (7, 7),
        (None, None),
    ],
)
def test_a_template_is_filled(value: Any, filled: Any) -> None:
    assert fill_arguments({"x": value}, RESULTS) == {"x": filled}


@pytest.mark.parametrize(
    "key",
    [
        "2",
        "flight.tax",
        "flight.legs.7.to",
        "flight.legs.1",
        "flight.legs.1234567890",
        "1.x",
        "text.city.name",
        "flight.legs.-1",
    ],
)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(MissingKey) as raised:
        fill_arguments({"x": f"a {{{key}}}"}, RESULTS)
    assert raised.value.key == key
    assert raised.value.message == f"no value for the template {{{key}}}"
    assert (raised.value.metadata, raised.value.kind) == ({"key": key}, "planning.context_loss")
    assert pickle.loads(pickle.dumps(raised.value)).key == key


def test_keys_of_objects_are_no_templates() -> None:
    assert fill_arguments({"{1}": {"{1}": 1}}, RESULTS) == {"{1}": {"{1}": 1}}


def test_a_filled_text_is_not_filled_again() -> None:
    assert fill_arguments({"x": "{1}"}, {"1": "{2}", "2": "secret"}) == {"x": "{2}"}


def test_arguments_that_grow_too_large_are_refused() -> None:
    too_large = r"^the arguments of the subtask have more than 1,048,576 characters$"
    with pytest.raises(ArgumentsTooLarge, match=too_large) as raised:
        fill_arguments({"x": "{1}" * 100}, {"1": "a" * 20_000})
    assert raised.value.reason == "MESSAGE_TOO_LARGE"
    with pytest.raises(ArgumentsTooLarge, match=too_large):
        fill_arguments({str(n): "{1}" for n in range(100)}, {"1": "a" * 20_000})
    most = {"1": "a" * (MAX_CHARACTERS // 2)}
    assert len(fill_arguments({"x": "{1}{1}"}, most)["x"]) == MAX_CHARACTERS
    assert fill_arguments({"x": "{1}", "y": "{1}"}, most)
    with pytest.raises(ArgumentsTooLarge, match=too_large):
        fill_arguments({"x": "{1}", "y": "{1}", "z": "a"}, most)


def test_arguments_that_are_too_deep_are_refused() -> None:
    deep: Any = "end"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ArgumentsTooLarge, match=r"^the arguments of the subtask have more than 32 levels$"):
        fill_arguments({"x": deep}, {})
    most: Any = "end"
    for _ in range(MAX_DEPTH - 1):
        most = [most]
    assert fill_arguments({"x": most}, {}) == {"x": most}
    with pytest.raises(ArgumentsTooLarge):
        fill_arguments({"x": [most]}, {})


def test_values_are_the_context_and_completed_results() -> None:
    task = task_of(
        step("a").with_result(1),
        step("b", status=SubTaskStatus.FAILED, result="error"),
        context={"a": 0, "city": "Rome"},
    )
    assert template_values(task) == {"a": 1, "city": "Rome"}
