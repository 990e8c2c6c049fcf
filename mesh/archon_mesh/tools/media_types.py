"""Media types of a tool's input and output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH
from archon_mesh.core.media import Media
from archon_mesh.core.media_types import TEXTUAL

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[;,]")


def check_input(tool_name: str, accepts: Sequence[str], arguments: Mapping[str, Any]) -> None:
    """Raises InvalidArgument for a file among the arguments, a Media or a data URL, of a type that is not accepted."""
    for media_type in _files_of(arguments):
        if not _matches(media_type, accepts):
            message = f"invalid arguments for tool {tool_name}: {media_type} is not accepted; {', '.join(accepts)} is"
            raise InvalidArgument(message, kind=INVALID_PARAMETERS)


def check_output(tool_name: str, produces: Sequence[str], content: Any) -> None:
    """Raises InvalidArgument for a content of a type that the tool does not declare."""
    files = [file.media_type for file in Media.among(content)]
    for media_type in files or [_type_of(content)]:
        is_text = media_type == "text/plain" and any(TEXTUAL.match(each) for each in produces)
        if not is_text and not _matches(media_type, produces):
            message = f"tool {tool_name} returned {media_type}; it declares {', '.join(produces)}"
            raise InvalidArgument(message, kind=TOOL_CRASH)


def _type_of(content: Any) -> str:
    return "text/plain" if isinstance(content, str) else "application/json"


def _matches(media_type: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in (media_type, "*/*") or (pattern.endswith("/*") and media_type.startswith(pattern[:-1]))
        for pattern in patterns
    )


def _files_of(value: Any) -> Iterator[str]:
    if isinstance(value, Media):
        yield value.media_type
    elif isinstance(value, str):
        if value.startswith("data:") and (match := _DATA_URL.match(value)):
            yield match[1] or "text/plain"
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _files_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _files_of(item)
