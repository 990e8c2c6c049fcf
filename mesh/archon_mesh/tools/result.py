"""The result of a tool call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from archon_mesh.tools.image import Image


class ToolResultStatus(StrEnum):
    """How a tool call ended."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. `error_message` is set unless `status` is `success`.

    `content` is text or any JSON value. `metadata` is for the framework and never shown to a model.
    """

    content: Any = None
    status: ToolResultStatus = ToolResultStatus.SUCCESS
    error_message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def success(cls, content: Any, metadata: Mapping[str, Any] | None = None, **more: Any) -> ToolResult:
        """Returns a result for a successful call. `more` is added to the metadata."""
        return cls(content, metadata={**(metadata or {}), **more})

    @classmethod
    def error(cls, error_message: str, metadata: Mapping[str, Any] | None = None, **more: Any) -> ToolResult:
        """Returns a result for a failed call. `more` is added to the metadata."""
        return cls(None, ToolResultStatus.ERROR, error_message, {**(metadata or {}), **more})

    @classmethod
    def timeout(cls, seconds: float, metadata: Mapping[str, Any] | None = None, **more: Any) -> ToolResult:
        """Returns a result for a call that exceeded its timeout of `seconds`. `more` is added to the metadata."""
        message = f"no answer within {seconds:g} s"
        return cls(None, ToolResultStatus.TIMEOUT, message, {**(metadata or {}), **more})

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status == ToolResultStatus.SUCCESS

    @property
    def text(self) -> str:
        """The result as a model reads it: text unchanged, any other value as JSON, or the error message."""
        if not self.ok:
            return self.error_message
        if isinstance(self.content, (str, Image)):
            return str(self.content)
        return "" if self.content is None else json.dumps(self.content, ensure_ascii=False, default=str)
