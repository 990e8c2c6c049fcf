"""An answer of the offline model that matches a JSON Schema: its text, where the schema takes one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from archon_mesh.llm.schema_references import resolved

MAX_DEPTH: Final = 4
"""Levels of an answer; below them it has required values only, and null where that is allowed."""

MAX_LEVELS: Final = 30
"""Levels of a schema that is followed: one may require itself."""

MAX_TEXT: Final = 400
"""Characters of a text of an answer."""

_NULL: Final = {"type": "null"}
_FORMATS: Final = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
}


def example_json(schema: Mapping[str, Any], text: str) -> str:
    """Returns JSON that matches a schema as far as types, enums, references, and limits of numbers, texts and lists go,
    with `text` in place of texts."""
    return json.dumps(_example(schema, schema, " ".join(text.split())[:MAX_TEXT], 0), ensure_ascii=False)


def _example(schema: Any, root: Mapping[str, Any], text: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_LEVELS:
        return None
    schema = resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := sorted(schema.get(key, ()), key=lambda each: (each == _NULL) != (depth > MAX_DEPTH)):
            return _example(choices[0], root, text, depth + 1)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    match next((each for each in kinds if each != "null"), "null") if isinstance(kinds, list) else kinds:
        case "object":
            properties, required = schema.get("properties", {}), schema.get("required", ())
            names = [name for name in properties if depth <= MAX_DEPTH or name in required]
            return {name: _example(properties[name], root, text, depth + 1) for name in names}
        case "array":
            first = schema.get("prefixItems", [])
            count = max(schema.get("minItems", 0), 0 if depth > MAX_DEPTH or schema.get("maxItems") == 0 else 1)
            items = [*first, *[schema.get("items", {})] * (count - len(first))]
            return [_example(each, root, text, depth + 1) for each in items]
        case "string":
            example = _FORMATS.get(str(schema.get("format", "")))
            return example or text[: schema.get("maxLength", MAX_TEXT)].ljust(schema.get("minLength", 0), ".")
        case "integer" | "number" as kind:
            return int(_number(schema)) if kind == "integer" else _number(schema)
        case "boolean":
            return False
    return None


def _number(schema: Mapping[str, Any]) -> float:
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf))
    high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
    number = 0 if low <= 0 <= high else math.ceil(low / step) * step if low > 0 else math.floor(high / step) * step
    if number == schema.get("exclusiveMinimum"):
        number += step
    if number == schema.get("exclusiveMaximum"):
        number -= step
    return number
