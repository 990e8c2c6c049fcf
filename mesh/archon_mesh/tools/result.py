"""The result of a tool call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.core.media import Media

MAX_METADATA_DEPTH: Final = 20
"""Levels of nesting of metadata."""

_SCALARS: Final = (str, int, float, bool, type(None))


class ToolResultStatus(StrEnum):
    """How a tool call ended."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. `content` is text, a JSON value, a file (Image, Audio, EmbeddedResource), or a list
    of these.

    `error_message` is set unless `status` is `success`; it is then the content too. `metadata` is plain JSON data for
    the framework and never shown to a model. Raises InvalidArgument if it is anything else.
    """

    content: Any = None
    status: ToolResultStatus = ToolResultStatus.SUCCESS
    error_message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.metadata, Mapping):
            raise InvalidArgument(f"invalid metadata: expected a mapping, got {type(self.metadata).__name__}")
        _check_plain(self.metadata, "metadata", 0)
        if not self.ok:
            message = self.error_message or (str(self.content) if self.content is not None else self.status.value)
            object.__setattr__(self, "error_message", message)
            object.__setattr__(self, "content", message)

    @classmethod
    def success(cls, content: Any, metadata: Mapping[str, Any] | None = None) -> ToolResult:
        """Returns a result for a successful call."""
        return cls(content, metadata=metadata or {})

    @classmethod
    def error(cls, error_message: str, metadata: Mapping[str, Any] | None = None) -> ToolResult:
        """Returns a result for a failed call."""
        return cls(error_message, ToolResultStatus.ERROR, error_message, metadata or {})

    @classmethod
    def timeout(cls, error_message: str, metadata: Mapping[str, Any] | None = None) -> ToolResult:
        """Returns a result for a call that exceeded its timeout."""
        return cls(error_message, ToolResultStatus.TIMEOUT, error_message, metadata or {})

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status == ToolResultStatus.SUCCESS

    @property
    def text(self) -> str:
        """The result as a model reads it: text unchanged, any other value as JSON, or the error message."""
        if not self.ok:
            return self.error_message
        if isinstance(self.content, (str, Media)):
            return str(self.content)
        return "" if self.content is None else json.dumps(self.content, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A result together with the exception behind it, which never leaves the process.

    `error` is None if the call succeeded or the tool itself returned an error result.
    """

    result: ToolResult
    error: BaseException | None = None


def as_result(value: object) -> ToolResult:
    """Returns a ToolResult unchanged, and any other value as the content of one."""
    return value if isinstance(value, ToolResult) else ToolResult(value)


def _check_plain(value: object, path: str, depth: int) -> None:
    if isinstance(value, _SCALARS):
        return
    if depth >= MAX_METADATA_DEPTH:
        raise InvalidArgument(f"invalid metadata: nested more than {MAX_METADATA_DEPTH} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidArgument(f"invalid metadata: the key {key!r} of {path} is not a text")
            if type(item) not in _SCALARS:
                _check_plain(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_plain(item, f"{path}[{index}]", depth + 1)
    else:
        raise InvalidArgument(f"invalid metadata: {path} is {type(value).__name__}, not plain JSON data")
