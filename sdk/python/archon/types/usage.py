"""Resources that attempts have spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from archon.api.common.v1 import common_pb2

COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "model_calls",
    "tool_calls",
    "cost_micro_usd",
    "cached_input_tokens",
    "cache_write_tokens",
)
"""The fields of a usage that are added."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, calls, and cost in millionths of a US dollar. A provider read `cached_input_tokens` of the input from its
    cache and wrote `cache_write_tokens`; with `estimated`, the tokens are not the provider's figures."""

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    cost_micro_usd: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum, which is estimated if one of the two is."""
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in COUNTS}
        return Usage(**sums, estimated=self.estimated or other.estimated)

    @property
    def proto(self) -> common_pb2.Usage:
        """The usage as a message."""
        counts: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        return common_pb2.Usage(**counts, estimated=self.estimated)

    @classmethod
    def from_proto(cls, message: common_pb2.Usage) -> Usage:
        """Returns the usage that a message has. Agents report it themselves: a negative count reads as 0."""
        counts: dict[str, Any] = {name: max(0, getattr(message, name)) for name in COUNTS}
        return cls(**counts, estimated=message.estimated)
