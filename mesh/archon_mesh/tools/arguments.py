"""The arguments of a call: a mapping or JSON, and their canonical form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_RESOURCES

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def parse_arguments(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Returns the arguments as a mapping. Raises InvalidArgument if they are not a JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"invalid arguments: not JSON: {error}", kind=INVALID_PARAMETERS) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        expected = f"invalid arguments: expected a JSON object, got {type(arguments).__name__}"
        raise InvalidArgument(expected, kind=INVALID_PARAMETERS)
    return arguments


def read_arguments(
    arguments: Mapping[str, Any] | str | None, tool_name: str, limit: int
) -> tuple[Mapping[str, Any], str | None]:
    """Returns the arguments, and their canonical JSON form if they have one. Raises InvalidArgument."""
    if isinstance(arguments, str):
        _check_size(len(arguments), tool_name, limit)
    parsed = parse_arguments(arguments)
    if not parsed:
        return parsed, "{}"
    is_json = True
    try:
        try:
            text = _CANONICAL.encode(parsed)
        except TypeError:  # a value that a hook has put there
            is_json, text = False, json.dumps(parsed, default=str, skipkeys=True)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"invalid arguments: not JSON: {error}", kind=INVALID_PARAMETERS) from None
    _check_size(len(text) if len(text) * 4 <= limit else len(text.encode(errors="replace")), tool_name, limit)
    return parsed, text if is_json else None


def _check_size(size: int, tool_name: str, limit: int) -> None:
    if size > limit:
        message = f"arguments of {size:,} bytes are too large for tool {tool_name}: its limit is {limit:,} bytes"
        raise InvalidArgument(message, kind=TOOL_RESOURCES)
