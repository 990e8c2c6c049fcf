"""Types of answers: what may be declared, and which values match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from archon import output as output_module
from archon.errors import FailedPrecondition, InvalidArgument, OutputMismatch
from archon.failure_kinds import MODEL_FORMAT
from archon.output import MAX_SCHEMA_BYTES, MAX_VIOLATIONS, OutputType


class City(BaseModel):
    name: str = Field(alias="cityName")
    people: int = 0
    founded: date | None = None


@dataclass
class Point:
    x: float


class Row(TypedDict):
    id: int


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


class Colour(Enum):
    RED = "red"


DRAFT_4 = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "type": "number",
    "minimum": 1,
    "exclusiveMinimum": True,
}


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        (City, {"cityName": "Rome", "people": "3"}, City(cityName="Rome", people=3)),
        (Point, {"x": 2}, Point(2.0)),
        (Row, {"id": 1}, {"id": 1}),
        (list[int], [1, 2], [1, 2]),
        (set[str], ["a"], {"a"}),
        (Colour, "red", Colour.RED),
        (Literal["yes", "no"], "no", "no"),
        (City | Point, {"x": 1}, Point(1.0)),
        (date, "2026-01-02", date(2026, 1, 2)),
        ({"type": "array", "items": {"type": "integer"}}, [1], [1]),
        (DRAFT_4, 2, 2),
    ],
    ids=repr,
)
def test_value_of_a_type_becomes_its_object(declared: object, value: Any, expected: Any) -> None:
    assert OutputType(declared).validate(value) == expected


@pytest.mark.parametrize("declared", [None, str])
def test_text_needs_no_type(declared: object) -> None:
    assert OutputType.of(declared) is None


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (5, "expected a type or a JSON Schema"),
        (object(), "expected a type or a JSON Schema"),
        ("City", "expected a type or a JSON Schema"),
        (len, "expected a type or a JSON Schema"),
        ([int], "expected a type or a JSON Schema"),
        ({"type": "nope"}, "no JSON Schema: type"),
        ({"properties": {"a": {"type": 5}}}, r"no JSON Schema: properties\.a\.type"),
        ({"$ref": "#/$defs/missing"}, "'#/\\$defs/missing' has no target"),
        ({"properties": {"a": {"$ref": "https://example.com/schema"}}}, "has no target"),
        ({"patternProperties": {"\\p{L}": {}}}, "pattern"),
        ({"default": {1, 2}}, "is not JSON"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "bytes, at most"),
        (nested(400), "nested too deep"),
        (nested(5_000), "nested too deep|is not JSON"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_type_is_refused(declared: object, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        OutputType(declared)


def test_schema_with_references_to_itself_is_taken() -> None:
    schema = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    assert OutputType(schema).validate([[], [[]]]) == [[], [[]]]
    with pytest.raises(OutputMismatch):
        OutputType(schema).validate([1])


@pytest.mark.parametrize(
    "declared",
    [City, {"type": "object", "required": ["cityName"], "properties": {"people": {"type": "integer"}}}],
    ids=["type", "schema"],
)
def test_mismatch_names_each_violation_and_has_the_text(declared: object) -> None:
    with pytest.raises(OutputMismatch, match="people") as raised:
        OutputType(declared).validate({"people": "many"}, text='{"people": "many"} and so on')
    error = raised.value
    assert {"cityName", "people"} & {violation.field for violation in error.field_violations}
    assert "people" in {violation.field for violation in error.field_violations}
    assert error.text == '{"people": "many"} and so on'
    assert (error.kind, error.reason) == (MODEL_FORMAT, "OUTPUT_MISMATCH")
    assert isinstance(error, FailedPrecondition)


def test_check_of_a_schema_that_refers_to_itself_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "MAX_REFERENCES", 500)
    definitions = {f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(30)}
    output = OutputType({"$defs": definitions | {"d30": False}, "$ref": "#/$defs/d0"})
    with pytest.raises(OutputMismatch, match="takes too long"):
        output.validate(1)
    tree = OutputType({"type": "array", "items": {"$ref": "#"}})
    for _ in range(2):
        assert tree.validate([[]] * 400)


def test_violations_are_bounded() -> None:
    with pytest.raises(OutputMismatch) as raised:
        OutputType({"type": "array", "items": {"type": "integer"}}).validate(["x" * 9_000] * 50)
    assert len(raised.value.field_violations) == MAX_VIOLATIONS
    assert len(str(raised.value)) < 10_000


@pytest.mark.parametrize("text", ["", "Rome", '{"cityName": ', "[" * 100_000])
def test_text_that_is_no_json_is_a_mismatch(text: str) -> None:
    with pytest.raises(OutputMismatch, match="not JSON"):
        OutputType(City).parse(text)


def test_object_is_written_as_its_schema_says() -> None:
    output = OutputType(City)
    assert output.to_json(City(cityName="Köln")) == '{"cityName":"Köln","people":0,"founded":null}'
    schema: Mapping[str, Any] = output.schema
    assert set(schema["properties"]) == {"cityName", "people", "founded"}
