"""One call of a model, as hooks may change it before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import ModelRequest, ToolSpec


@dataclass(slots=True)
class ModelParams:
    """`messages` are made for this call: what is changed here isn't kept in the history. `timeout` is in seconds."""

    messages: list[ChatMessage]
    tools: Sequence[ToolSpec] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = 120.0

    def request(self) -> ModelRequest:
        """As a model client takes it."""
        return ModelRequest(tuple(self.messages), tuple(self.tools), self.temperature, self.max_tokens, self.timeout)
