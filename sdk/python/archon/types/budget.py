"""Limits on resources."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument
from archon.wire import to_seconds


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget of a run or a delegation, or a slice of one. A field that is 0 sets no limit.

    `max_tokens` counts tokens read and written; `max_cost_micro_usd` is in millionths of a US dollar; `max_time` is in
    seconds; `max_depth` is the depth to which delegations may nest; `max_model_calls` counts the calls of all agents.

    Raises InvalidArgument if a limit is negative.
    """

    max_tokens: int = 0
    max_cost_micro_usd: int = 0
    max_time: float = 0.0
    max_depth: int = 0
    max_model_calls: int = 0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) >= 0:
                raise InvalidArgument(f"{name} must be 0 or more, not {getattr(self, name)}")

    @property
    def proto(self) -> common_pb2.Budget:
        """The budget as a message."""
        message = common_pb2.Budget(
            max_tokens=self.max_tokens,
            max_cost_micro_usd=self.max_cost_micro_usd,
            max_depth=self.max_depth,
            max_model_calls=self.max_model_calls,
        )
        if self.max_time:
            message.max_time.FromNanoseconds(round(self.max_time * 1e9))
        return message

    @classmethod
    def from_proto(cls, message: common_pb2.Budget) -> Budget:
        """Returns the budget that a message has. A negative limit, which the mesh never sends, reads as 0."""
        return cls(
            max(0, message.max_tokens),
            max(0, message.max_cost_micro_usd),
            max(0.0, to_seconds(message.max_time)),
            max(0, message.max_depth),
            max(0, message.max_model_calls),
        )
