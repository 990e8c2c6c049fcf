"""Forms of the protocol: the values that a person can be asked for, and whether an answer matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SIMPLE: Final = ("string", "number", "integer", "boolean")
"""Types of fields; lists of choices are the only others."""


def is_form(schema: Mapping[str, Any]) -> bool:
    """Returns whether a form can have the properties of a schema as its fields. A form without fields is confirmed."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        return False
    return all(isinstance(field, Mapping) and is_field(field) for field in properties.values())


def is_field(schema: Mapping[str, Any]) -> bool:
    """Returns whether a form can ask for a value of the schema: a simple type, or an array of choices."""
    if schema.get("type") in SIMPLE:
        return True
    items = schema.get("items")
    return schema.get("type") == "array" and isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)


def mismatch(schema: Mapping[str, Any], value: object) -> str | None:
    """Returns how a value differs from a JSON Schema (2020-12), None if it matches. No other document is read."""
    import referencing
    from jsonschema import Draft202012Validator

    registry: Any = referencing.Registry()
    for error in Draft202012Validator(dict(schema), registry=registry).iter_errors(value):
        return str(error.message)[:500]
    return None
