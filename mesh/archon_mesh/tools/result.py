"""The result of a tool call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from archon_mesh.tools.image import Image

Status = Literal["success", "error", "timeout"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. `error_message` is set unless `status` is `success`.

    `content` is text or any JSON value. `metadata` is for the framework and never shown to a model.
    """

    content: Any = None
    status: Status = "success"
    error_message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def success(cls, content: Any, **metadata: Any) -> ToolResult:
        """Returns a result for a successful call."""
        return cls(content, metadata=metadata)

    @classmethod
    def error(cls, message: str, **metadata: Any) -> ToolResult:
        """Returns a result for a failed call."""
        return cls(None, "error", message, metadata)

    @classmethod
    def timeout(cls, seconds: float, **metadata: Any) -> ToolResult:
        """Returns a result for a call that exceeded its timeout of `seconds`."""
        return cls(None, "timeout", f"no answer within {seconds:g} s", metadata)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status == "success"

    @property
    def text(self) -> str:
        """The result as a model reads it: text unchanged, any other value as JSON, or the error message."""
        if not self.ok:
            return self.error_message
        if isinstance(self.content, (str, Image)):
            return str(self.content)
        return "" if self.content is None else json.dumps(self.content, ensure_ascii=False, default=str)
