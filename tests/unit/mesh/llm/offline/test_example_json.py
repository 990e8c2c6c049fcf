"""Answers of the offline model that match a schema."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import jsonschema
import pytest
from pydantic import BaseModel, Field

from archon_mesh.agent import Agent
from archon_mesh.llm.offline.example_json import example_json


class Size(Enum):
    SMALL = "small"


class Node(BaseModel):
    name: str = Field(min_length=3, max_length=20)
    size: Size
    kind: Literal["a", "b"]
    born: date
    id: UUID
    weight: float = Field(gt=0, lt=2)
    count: int = Field(ge=7)
    parent: Node | None
    children: list[Node] = Field(max_length=2)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "number", "maximum": -3}, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
    {"type": ["null", "integer"]},
    {"type": "integer", "multipleOf": 5, "minimum": 7},
    {"allOf": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"type": "boolean"}}},
    {"properties": {"a": {"const": 5}}, "required": ["a"]},
    {"type": "string", "format": "email"},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_example_matches_its_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(json.loads(example_json(schema, "some text")))


async def test_offline_agent_has_its_text_in_the_answer() -> None:
    class Report(BaseModel):
        summary: str

    assert "Count the boats" in (await Agent("a", output=Report).run_async("Count the boats")).summary


def test_schema_that_requires_itself_has_an_end() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert example_json(schema, "x").startswith('{"a": {"a"')


async def test_offline_agent_answers_with_any_model() -> None:
    node = await Agent("a", output=Node).run_async("?")
    assert (node.size, node.kind, node.count) == (Size.SMALL, "a", 7)
    assert 0 < node.weight < 2
