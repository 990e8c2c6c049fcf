"""Schemas of tools for servers that know a part of JSON Schema."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.llm.servers.plain_schema import plain_schema

KEYS = {
    *("type", "description", "enum", "properties", "required", "items", "anyOf", "nullable", "format", "minimum"),
    *("maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern"),
}


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Place(pydantic.BaseModel):
    x: float
    of: Place | None = None


class Everything(pydantic.BaseModel):
    colour: Colour
    level: Literal[1, 2, 3]
    only: Literal["this"]
    place: Place
    either: int | str
    maybe: int | None = None
    pair: tuple[int, str]
    table: dict[str, int]
    many: list[Place]
    above: Annotated[int, pydantic.Field(gt=3, description="above three")]


EXAMPLE = {
    "colour": "red",
    "level": 2,
    "only": "this",
    "place": {"x": 1.5, "of": {"x": 2.0, "of": None}},
    "either": "a",
    "maybe": None,
    "pair": [1, "b"],
    "table": {"a": 1},
    "many": [{"x": 1.0, "of": None}],
    "above": 4,
}


def keys_of(schema: Mapping[str, Any]) -> set[str]:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items", {})]
    return set(schema).union(*(keys_of(part) for part in inner if part))


def as_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`nullable` is OpenAPI's; in JSON Schema it is another choice."""
    same: dict[str, Any] = {key: value for key, value in schema.items() if key != "nullable"}
    if "properties" in same:
        same["properties"] = {name: as_json_schema(part) for name, part in same["properties"].items()}
    if "anyOf" in same:
        same["anyOf"] = [as_json_schema(part) for part in same["anyOf"]]
    if "items" in same:
        same["items"] = as_json_schema(same["items"])
    return {"anyOf": [same, {"type": "null"}]} if schema.get("nullable") else same


def test_the_schema_of_a_model_has_known_keys_only_and_allows_what_it_allowed() -> None:
    plain = plain_schema(Everything.model_json_schema())
    assert keys_of(plain) <= KEYS
    jsonschema.validate(EXAMPLE, as_json_schema(plain))
    assert plain["properties"]["colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert plain["properties"]["maybe"] == {"type": "integer", "nullable": True}
    assert plain["properties"]["level"] == {"type": "integer", "description": "One of: 1, 2, 3."}
    assert plain["properties"]["above"] == {"type": "integer", "description": "above three"}
    assert plain["properties"]["many"]["items"]["properties"]["x"] == {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "string", "format": "uri", "$schema": "x"}, {"type": "string"}),
        ({"$ref": "#/$defs/none"}, {}),
        ({"type": [[None, None]]}, {}),
        ({"type": 5}, {}),
        ({"type": ["string", 5]}, {"type": "string"}),
        ({"$ref": "#"}, {}),
        (
            {"allOf": [{"$ref": "#/$defs/a"}, {"required": ["b"]}], "$defs": {"a": {"properties": {"b": {}}}}},
            {"type": "object", "properties": {"b": {}}, "required": ["b"]},
        ),
    ],
)
def test_what_servers_refuse_is_said_in_other_words(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert plain_schema(schema) == expected


NAMES = st.sampled_from(
    ["type", "$ref", "anyOf", "oneOf", "allOf", "items", "enum", "const", "properties", "required", "prefixItems", "a"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(NAMES, JSON, max_size=5))
def test_any_object_is_read_as_a_schema(schema: dict[str, Any]) -> None:
    plain = plain_schema(schema)
    assert plain_schema(plain) == plain_schema(plain_schema(plain))
