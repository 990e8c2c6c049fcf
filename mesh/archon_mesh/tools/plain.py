"""Values that functions return, as the plain values of JSON by their types."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from itertools import islice
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from archon.errors import ResourceExhausted
from archon.failure_kinds import TOOL_RESOURCES
from archon_mesh.core.media import Media
from archon_mesh.tools.result import ToolResult

_AS_THEY_ARE: Final = (str, int, float, bool, type(None), ToolResult)


MAX_ITEMS: Final = 10_000
"""Values that a generator may yield."""


def to_plain(value: Any) -> Any:
    """Returns models, dataclasses, enums, sets, times, bytes (as base64 where they are no text) and the values of a
    generator as plain values, within lists and mappings too. Other values stay as they are.

    Raises ResourceExhausted if a generator yields more than MAX_ITEMS values."""
    if type(value) in _AS_THEY_ARE or isinstance(value, (ToolResult, Media)):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(each, (ToolResult, Media)) for each in value):
        return value
    if isinstance(value, Mapping) and any(isinstance(each, (ToolResult, Media)) for each in value.values()):
        return value
    if inspect.isgenerator(value):
        value = list(islice(value, MAX_ITEMS + 1))
        _check(len(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return to_jsonable_python(value, bytes_mode="base64")
    try:
        return to_jsonable_python(value, bytes_mode="base64", fallback=_unknown)
    except (PydanticSerializationError, ValueError, RecursionError):
        return value


async def collected(items: AsyncIterator[Any]) -> list[Any]:
    """Returns the values of an asynchronous generator. Raises ResourceExhausted above MAX_ITEMS."""
    found: list[Any] = []
    async for each in items:
        found.append(each)
        _check(len(found))
    return found


def _check(count: int) -> None:
    if count > MAX_ITEMS:
        raise ResourceExhausted(f"the tool yields more than {MAX_ITEMS:,} values", kind=TOOL_RESOURCES)


def _unknown(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} has no plain form")
