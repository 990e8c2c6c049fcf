"""The tools that a server lists, within bounds: a server may be hostile, and list anything."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as ListedTool

_log = logging.getLogger(__name__)

MAX_TOOLS: Final = 200
MAX_PAGES: Final = 20
"""Tools of a server, and pages of its list that are read."""

MAX_DESCRIPTION: Final = 4_000
"""Characters of the description of a tool; longer ones are cut."""

MAX_SCHEMA_BYTES: Final = 32 * 1024
MAX_SCHEMA_DEPTH: Final = 30
"""Bytes and depth of the schema of a tool; a tool with a larger one is left out."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")


async def list_tools(client: Client, server: str) -> list[ListedTool]:
    """Returns the tools of a server that are within the bounds, each name once."""
    found: dict[str, ListedTool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            if len(found) >= MAX_TOOLS:
                _log.warning("MCP server %s lists more than %d tools; the others are left out", server, MAX_TOOLS)
                return list(found.values())
            if (why := refusal_of(tool)) is not None:
                _log.warning("MCP server %s: tool %.100r is left out: %s", server, tool.name, why)
            elif tool.name not in found:
                found[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            break
    else:
        _log.warning("MCP server %s has more than %d pages of tools; the others are left out", server, MAX_PAGES)
    return list(found.values())


def refusal_of(tool: ListedTool) -> str | None:
    """Returns why a tool is left out, or None."""
    if not _NAME.fullmatch(tool.name):
        return "its name has other characters than letters, digits and _ . / -, or more than 128"
    schema = tool.input_schema
    if (why := schema_refusal(schema)) is not None:
        return why
    return None if schema.get("type", "object") == "object" else "its schema does not describe an object"


def schema_refusal(schema: Mapping[str, Any]) -> str | None:
    """Returns why a schema of a server is not used, or None."""
    try:
        if len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
            return f"its schema is larger than {MAX_SCHEMA_BYTES:,} bytes"
        for key, value in _entries(schema, 0):
            if key in ("$ref", "$dynamicRef") and not str(value).startswith("#"):
                return "its schema refers to another document"
        from jsonschema import SchemaError  # slow to import

        validator_of(schema).check_schema(without_patterns(schema))
    except RecursionError:
        return f"its schema is nested more than {MAX_SCHEMA_DEPTH} levels deep"
    except SchemaError:
        return "its schema is invalid"
    return None


def for_models(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema as providers of models take it: they refuse one without `type` or `properties`."""
    return {"type": "object", "properties": {}, **schema}


def validator_of(schema: Mapping[str, Any]) -> Any:
    """Returns the class of jsonschema's validators for the draft that a schema declares, of 2020-12 if it declares
    none that is known."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return validator_for(schema, default=Draft202012Validator)


_NAMED: Final = ("properties", "$defs", "definitions", "dependentSchemas")
"""Keys of a schema whose values are schemas by names, which may be any word."""


def without_patterns(schema: Any) -> Any:
    """Returns a schema for checks in this process. A stranger's regular expressions may take for ever, and ECMA-262
    differs from Python: the server checks them."""
    if not isinstance(schema, Mapping):
        return [without_patterns(each) for each in schema] if isinstance(schema, list) else schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            kept[key] = {name: without_patterns(each) for name, each in value.items()}
        elif key in ("const", "enum", "default", "examples"):
            kept[key] = value
        elif key not in ("pattern", "patternProperties"):
            kept[key] = without_patterns(value)
    return kept


def _entries(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > MAX_SCHEMA_DEPTH:
        raise RecursionError
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key, item
            yield from _entries(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _entries(item, depth + 1)
