"""What a tool call came to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from archon_mesh.tools.image import Image

Status = Literal["success", "error", "timeout"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`content` is any JSON value or text; `error_message` says why where `status` isn't `success`. `metadata` is for
    the framework and never shown to a model."""

    content: Any = None
    status: Status = "success"
    error_message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def success(cls, content: Any, **metadata: Any) -> ToolResult:
        """It worked."""
        return cls(content, metadata=metadata)

    @classmethod
    def error(cls, message: str, **metadata: Any) -> ToolResult:
        """It failed."""
        return cls(None, "error", message, metadata)

    @classmethod
    def timeout(cls, seconds: float, **metadata: Any) -> ToolResult:
        """It took longer than so many seconds."""
        return cls(None, "timeout", f"no answer within {seconds:g} s", metadata)

    @property
    def ok(self) -> bool:
        """Whether it worked."""
        return self.status == "success"

    @property
    def text(self) -> str:
        """As a model reads it: text as it is, any other value as JSON."""
        if not self.ok:
            return self.error_message
        if isinstance(self.content, (str, Image)):
            return str(self.content)
        return "" if self.content is None else json.dumps(self.content, ensure_ascii=False, default=str)
