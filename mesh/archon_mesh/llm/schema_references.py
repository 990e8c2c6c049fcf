"""References within a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_REFERENCES: Final = 12
"""References that are followed one after the other: a schema may refer to itself."""


def resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows the reference of a schema, if it has one within the same schema."""
    for _ in range(MAX_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        target: object = root
        for part in reference.lstrip("#").strip("/").split("/") if reference.strip("#/") else ():
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        own = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **own} if isinstance(target, Mapping) else own
    return schema
