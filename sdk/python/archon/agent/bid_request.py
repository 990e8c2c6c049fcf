"""A request for a bid."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.agent.v1 import agent_pb2


@dataclass(frozen=True, slots=True)
class BidRequest:
    """The step that a bid is asked for: its description, the description of a good answer, and the capability that it
    needs; the last two may be empty."""

    description: str
    expected_output: str = ""
    capability: str = ""

    @classmethod
    def from_proto(cls, message: agent_pb2.BidRequest) -> BidRequest:
        """Returns the request that a message has."""
        return cls(message.description, message.expected_output, message.capability)
