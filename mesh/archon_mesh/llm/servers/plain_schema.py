"""JSON Schemas of tools in the part of the language that a server with a reader of its own knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from archon_mesh.llm.schema_references import resolved

MAX_DEPTH: Final = 12
"""Levels of a schema. Below them anything is allowed: a schema may refer to itself."""

_KEPT: Final = (
    "type", "description", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern", "required"
)  # fmt: skip
_FORMATS: Final = ("date-time", "int32", "int64", "float", "double")


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema without references, with the keys of Gemini's `Schema` only
    (https://ai.google.dev/api/caching#Schema). It allows no less than the given one: tools check arguments
    themselves."""
    return _plain(schema, schema, 0)


def _plain(schema: object, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}
    schema = _merged(resolved(schema, root), root)
    plain: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("format") in _FORMATS:
        plain["format"] = schema["format"]
    if isinstance(kinds := schema.get("type"), list):
        kinds = [kind for kind in kinds if isinstance(kind, str) and kind != "null"]
        plain["type"] = kinds[0] if len(kinds) == 1 else None
        plain["anyOf"] = [{"type": kind} for kind in kinds]
        plain["nullable"] = "null" in schema["type"]
    elif not isinstance(kinds, str):
        plain.pop("type", None)
    if isinstance(choices := schema.get("anyOf", schema.get("oneOf")), list):
        plain["nullable"] = any(isinstance(choice, Mapping) and choice.get("type") == "null" for choice in choices)
        plain["anyOf"] = [
            _plain(choice, root, depth + 1)
            for choice in choices
            if not (isinstance(choice, Mapping) and choice.get("type") == "null")
        ]
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        _choose(plain, values)
    if isinstance(properties := schema.get("properties"), Mapping):
        plain["properties"] = {str(name): _plain(value, root, depth + 1) for name, value in properties.items()}
        plain.setdefault("type", "object")
    if plain.get("type") == "array":
        items = schema.get("items", {"anyOf": schema["prefixItems"]} if schema.get("prefixItems") else {})
        plain["items"] = _plain(items, root, depth + 1) or {"type": "string"}
    return _tidy(plain)


def _choose(plain: dict[str, Any], values: list[Any]) -> None:
    """Limits a schema to values: as `enum` if they are texts, else in words."""
    texts = [value for value in values if value is not None]
    plain["nullable"] = plain.get("nullable") or len(texts) < len(values)
    if texts and all(isinstance(value, str) for value in texts):
        plain["type"], plain["enum"] = "string", texts
    elif texts:
        words = f"One of: {', '.join(json.dumps(value, ensure_ascii=False) for value in texts)}."
        plain["description"] = f"{plain.get('description', '')} {words}".strip()


def _tidy(plain: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema without keys that say nothing; an `anyOf` of one is that one."""
    choices = plain.pop("anyOf", None)
    if choices and len(choices) == 1:
        plain = {**choices[0], **{key: value for key, value in plain.items() if value not in (None, False)}}
    elif choices:
        plain = {**plain, "anyOf": choices}
        plain.pop("type", None)
    return {key: value for key, value in plain.items() if value not in (None, False)}


def _merged(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a schema with the parts of its `allOf` in it."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        if isinstance(part, Mapping):
            part = resolved(part, root)
            properties = {**_mapping(part.get("properties")), **_mapping(merged.get("properties"))}
            required = [*_list(merged.get("required")), *_list(part.get("required"))]
            merged = {**part, **merged}
            merged |= {"properties": properties} if properties else {}
            merged |= {"required": required} if required else {}
    return merged


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
