"""The part of JSON Schema that OpenAI enforces (https://platform.openai.com/docs/guides/structured-outputs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset(
    {
        *("type", "title", "description", "enum", "const", "pattern", "multipleOf", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_DROPPED: Final = frozenset(
    {
        *("$schema", "$id", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator"),
        *("minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties"),
    }
)
"""Keys that strict schemas may not have, and without which a schema allows no less: the answer is checked anyway."""

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_CHOICES: Final = ("anyOf", "oneOf")


class _NotStrict(Exception):
    """The schema has something that a strict one cannot say."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the schema as a strict one, or None if there is none: all properties of each object must be required, and
    no others allowed. Objects that do not say whether they allow others get `additionalProperties: false`."""
    try:
        return _strict(schema)
    except (_NotStrict, RecursionError):
        return None


def _strict(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _NotStrict
    if "$ref" in schema:
        if not str(schema["$ref"]).startswith("#"):
            raise _NotStrict
        return {"$ref": schema["$ref"], **_definitions(schema)}
    strict: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _KEPT:
            strict[key] = value
        elif key == "format":
            strict |= {key: value} if value in _FORMATS else {}
        elif key in _CHOICES:
            strict["anyOf"] = [_strict(each) for each in value]
        elif key == "items":
            strict[key] = _strict(value)
        elif key not in _DROPPED and key not in (
            "properties",
            "required",
            "additionalProperties",
            "$defs",
            "definitions",
        ):
            raise _NotStrict
    if schema.get("type") == "object" or "properties" in schema:
        strict |= _object(schema)
    elif not strict.keys() & {"type", "anyOf", "enum", "const"}:
        raise _NotStrict
    if schema.get("type") == "array" and "items" not in strict:
        raise _NotStrict
    return {**strict, **_definitions(schema)}


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    is_closed = schema.get("additionalProperties", False) is False
    if not isinstance(properties, Mapping) or not is_closed or {*properties} != {*schema.get("required", ())}:
        raise _NotStrict
    return {
        "properties": {name: _strict(each) for name, each in properties.items()},
        "required": [*properties],
        "additionalProperties": False,
    }


def _definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: {name: _strict(each) for name, each in schema[key].items()}
        for key in ("$defs", "definitions")
        if key in schema
    }
