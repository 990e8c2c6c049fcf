"""The check of a subtask's result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon_mesh.engine.plan import SubTask
from archon_mesh.llm import ScriptedModel
from archon_mesh.planning import CheckedResult, check_by_model, check_by_rules

SCHEMA = json.dumps({"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]})


@pytest.mark.parametrize(
    ("expected", "result", "problem"),
    [
        ("", 0, ""),
        ("", "An error: is human.", ""),
        ("a price", "120", ""),
        ("", "", "the result is empty"),
        ("", None, "the result is empty"),
        ("", [], "the result is empty"),
        ("", "  \n", "the result is empty"),
        ("", "Error: no such hotel", "the result is an error: Error: no such hotel"),
        ("", "Traceback (most recent call last):\n", "the result is an error: Traceback"),
        ("", {"error": "booked out"}, "the result is an error: "),
        ("", '{"error": "booked out"}', "the result is an error: "),
        ("", {"error": "", "price": 1}, ""),
        ("", "x" * (1024 * 1024 + 1), "at most 1,048,576"),
        (SCHEMA, {"price": 3}, ""),
        (SCHEMA, '{"price": 3}', ""),
        (SCHEMA, {"price": "three"}, "price: 'three' is not of type 'number'"),
        (SCHEMA, "It costs 3.", "the result is not JSON"),
        ('{"type": "string"}', "It costs 3.", ""),
        ('{"type": "nonsense"}', "It costs 3.", ""),
        ('{"$ref": "https://example.com/x", "type": "object"}', {"a": 1}, ""),
        ('{"type": "string", "pattern": "(a+)+$"}', "a" * 40 + "b", ""),
        ("{a price}", "120", ""),
    ],
)
def test_a_result_is_checked_by_rules(expected: str, result: Any, problem: str) -> None:
    found = check_by_rules(SubTask("1", "Find a price", expected), result)
    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("schema", "result", "problem"),
    [
        ({"type": "array"}, "[]", ""),
        ({"type": "array"}, [], ""),
        ({"type": "null"}, "null", ""),
        ({"type": "object"}, '{"error": "none"}', ""),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, '"a"', ""),
        ({"enum": ["a"]}, '"a"', ""),
        ({"type": "array", "items": {"type": "integer"}}, '["x"]', "0: 'x' is not of type 'integer'"),
        ({"type": "array"}, "It is 3.", "the result is not JSON"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
            "1",
            "minimum",
        ),
        ({"type": "string", "pattern": "(a+)+$"}, '"' + "a" * 40 + 'b"', ""),
        ({"type": "array"}, [0] * 600_000, "at most"),
        ({"type": "array", "uniqueItems": True}, [{"a": number} for number in range(20_000)], ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_result_is_held_to_the_schema_of_its_step(schema: dict[str, Any], result: Any, problem: str) -> None:
    found = check_by_rules(SubTask("1", "Find a price", output_schema=schema), result)
    assert problem in found
    assert bool(found) == bool(problem)


def test_check_of_a_schema_that_refers_to_itself_has_an_end() -> None:
    levels = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(30)}
    schema = {"$defs": levels | {"d30": {}}, "$ref": "#/$defs/d0", "type": "object"}
    for subtask in (SubTask("1", "Find a price", output_schema=schema), SubTask("1", "x", json.dumps(schema))):
        assert "takes too long" in check_by_rules(subtask, {"a": 1})


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ('{"ok": true, "confidence": 0.7}', CheckedResult("", 0.7)),
        ('Well: {"ok": false, "problem": "no price"}', CheckedResult("no price", 1.0)),
        ('{"ok": false, "confidence": 7}', CheckedResult("it is not as expected", 1.0)),
        ("fine", CheckedResult()),
        ("[1]", CheckedResult()),
        ('{"ok": null, "confidence": "high"}', CheckedResult()),
    ],
)
async def test_a_model_checks_a_result(text: str, checked: CheckedResult) -> None:
    model = ScriptedModel([text])
    assert await check_by_model(model)(SubTask("1", "Find a price", "a number"), {"price": 3}) == checked
    assert json.loads(model.requests[0].messages[-1].content) == {
        "step": "Find a price",
        "expected": "a number",
        "result": '{"price": 3}',
    }
