"""Typed answers: what a model is asked for, and what is read from its reply."""

from __future__ import annotations

import json
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer

from archon.errors import OutputMismatch
from archon_mesh.llm.structured import AskedSchema, TypedOutput


class City(BaseModel):
    name: str
    people: int = 0


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Shown(BaseModel):
    """Is written in another form than it is read."""

    seconds: int

    @field_serializer("seconds")
    def _with_unit(self, value: int) -> str:
        return f"{value} s"


ROME = '{"name": "Rome", "people": 3}'

REPLIES = {
    "JSON": ROME,
    "code block": f"```json\n{ROME}\n```",
    "code block with text around it": f"Here it is:\n\n```\n{ROME}\n```\nIs there anything else?",
    "text around it": f"The answer is {ROME}, as you asked.",
    "single quotes and a comma": "{'name': 'Rome', 'people': 3,}",
    "last bracket missing": '{"people": 3, "name": "Rome"',
    "the last of two": f'For example {{"name": "Oslo"}}. Now the answer: {ROME}',
    "within one more object": f'{{"City": {ROME}}}',
    "within a final answer": f'{{"final_answer": {ROME}}}',
    "a JSON string": json.dumps(ROME),
    "thinking before it": f'<think>Maybe {{"name": "Oslo"}}?</think>{ROME}',
    "number as text": '{"name": "Rome", "people": "3"}',
    "more keys": '{"name": "Rome", "people": 3, "country": "Italy"}',
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_answer_is_read_from_a_reply(reply: str) -> None:
    output = TypedOutput.of(City)
    assert output is not None
    assert json.loads(output.read(reply)) == {"name": "Rome", "people": 3}


@pytest.mark.parametrize(
    "reply", ["", "Rome", "[]", '{"people": 3}', '{"name": "Rome", "people": "many"}', '{"name": "Ro'], ids=repr
)
def test_reply_without_an_answer_is_a_mismatch(reply: str) -> None:
    output = TypedOutput.of(City)
    assert output is not None
    with pytest.raises(OutputMismatch) as raised:
        output.read(reply)
    assert raised.value.text == reply
    assert raised.value.field_violations


@pytest.mark.parametrize(
    ("declared", "reply", "answer"),
    [
        (list[int], '{"answer": [1, 2]}', "[1,2]"),
        (list[int], "[1, 2]", "[1,2]"),
        (int, '{"answer": 42}', "42"),
        (int, "42", "42"),
        (Literal["yes", "no"], "yes", '"yes"'),
        (Literal["yes", "no"], '"yes"', '"yes"'),
        (int | City, '{"answer": {"name": "Rome"}}', '{"name":"Rome","people":0}'),
        (City | None, '{"answer": null}', "null"),
        (list[City], '{"answer": "[{\\"name\\": \\"Rome\\"}]"}', '[{"name":"Rome","people":0}]'),
        ({"type": "string"}, "just text", '"just text"'),
        ({"type": "array", "items": {"type": "integer"}}, '{"answer": [1]}', "[1]"),
    ],
)
def test_answer_that_is_no_object_is_asked_for_in_one(declared: object, reply: str, answer: str) -> None:
    output = TypedOutput.of(declared)
    assert output is not None
    assert (output.schema["type"], list(output.schema["properties"])) == ("object", ["answer"])
    assert output.read(reply) == answer


def test_recursive_type_is_asked_for_as_an_object() -> None:
    output = TypedOutput.of(Node)
    assert output is not None
    assert (output.schema["type"], set(output.schema["properties"])) == ("object", {"name", "children"})
    assert json.loads(output.read('{"name": "a", "children": [{"name": "b"}]}'))["children"][0]["name"] == "b"


def test_references_still_resolve_within_the_object() -> None:
    tree = {"type": "array", "items": {"$ref": "#"}}
    definitions = {"$defs": {"a": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/a"}}
    path = {"type": "array", "items": {"$ref": "#/prefixItems/0"}, "prefixItems": [{"type": "integer"}]}
    for schema, good, bad in ((tree, [[]], [[1]]), (definitions, [1], ["x"]), (path, [1, 2], [1, "x"])):
        asked = dict(AskedSchema.of(schema).schema)
        validator = jsonschema.Draft202012Validator(asked)
        assert validator.is_valid({"answer": good})
        assert not validator.is_valid({"answer": bad})


def test_answer_that_its_type_writes_otherwise_stays_as_it_was() -> None:
    output = TypedOutput.of(Shown)
    assert output is not None
    assert output.read('{"seconds": 5}') == '{"seconds": 5}'


def test_note_has_the_schema_in_words() -> None:
    output = TypedOutput.of(City)
    assert output is not None
    assert output.note.role == "system"
    assert json.dumps(output.schema) in output.note.content


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 50_000, "x" * 3_000_000, "{" * 500 + "}" * 500])
def test_hostile_reply_is_a_mismatch(text: str) -> None:
    output = TypedOutput.of(City)
    assert output is not None
    with pytest.raises(OutputMismatch):
        output.read(text)


@pytest.mark.parametrize("reply", ['{"answer": NaN}', '{"answer": Infinity}', "NaN", '{"answer": "NaN"}'])
def test_number_that_json_does_not_have_is_not_written(reply: str) -> None:
    output = TypedOutput.of(dict[str, float])
    assert output is not None
    try:
        answer = output.read(reply)
    except OutputMismatch:
        return
    json.loads(answer, parse_constant=lambda name: pytest.fail(name))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES, st.sampled_from(["{}", "```json\n{}\n```", "Well: {}"]))
def test_value_that_is_written_as_asked_is_read_back(value: Any, frame: str) -> None:
    output = TypedOutput.of({"type": ["array", "object", "string", "number", "boolean", "null"]})
    assert output is not None
    assert json.loads(output.read(frame.replace("{}", json.dumps({"answer": value})))) == value


def test_any_value_of_an_open_schema_is_an_answer() -> None:
    output = TypedOutput.of({})
    assert output is not None
    values: list[Any] = [1, None, {"a": 1}, [True]]
    for value in values:
        assert json.loads(output.read(json.dumps({"answer": value}))) == value
