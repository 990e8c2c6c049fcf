"""Strict schemas: which ones OpenAI enforces in full."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from archon_mesh.llm.structured import AskedSchema, strict_schema


class Size(Enum):
    SMALL = "small"


class Part(BaseModel):
    name: str = Field(min_length=1, description="what it is called")
    size: Size = Field(description="a reference with a description")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Whole(BaseModel):
    parts: list[Part] = Field(max_length=5)
    note: str | None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Tree(BaseModel):
    children: list[Tree]


def keys_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keys_in, schema))
    if not isinstance(schema, dict):
        return set()
    return {*schema, *(key for value in schema.values() for key in keys_in(value))}


def objects_in(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for each in schema for found in objects_in(each)]
    if not isinstance(schema, dict):
        return []
    inner = [found for each in schema.values() for found in objects_in(each)]
    return [schema, *inner] if schema.get("type") == "object" else inner


@pytest.mark.parametrize("model", [Whole, Tree, list[Part], Whole | Tree])
def test_types_whose_fields_are_all_required_are_strict(model: Any) -> None:
    from archon.output import OutputType

    strict = strict_schema(AskedSchema.of(OutputType(model).schema).schema)
    assert strict is not None
    assert strict["type"] == "object"
    for each in objects_in(strict):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert not keys_in(strict) & {"minLength", "oneOf", "discriminator", "default", "allOf"}


def test_reference_stands_alone() -> None:
    strict = strict_schema(Whole.model_json_schema())
    assert strict is not None
    assert strict["$defs"]["Part"]["properties"]["size"] == {"$ref": "#/$defs/Size"}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Optional(BaseModel):
    name: str = "x"


@pytest.mark.parametrize(
    "schema",
    [
        Open.model_json_schema(),
        Optional.model_json_schema(),
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "required": ["a"]},
        {"type": "object", "properties": {}, "patternProperties": {"^a": {"type": "string"}}},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
    ],
    ids=lambda schema: str(schema)[:60],
)
def test_schema_that_says_more_is_not_strict(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None
