"""Edges of the graph of roles."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import common_pb2
from archon.propagation import PropagationPolicy
from archon.wire import policy_from_proto, policy_to_proto


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge: `downstream` receives the final answers of `upstream`. The registry sets `pinned` (by an operator) and
    `declared_by` (ids of the instances that declare it)."""

    upstream: str
    downstream: str
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    pinned: bool = False
    declared_by: tuple[str, ...] = ()

    @property
    def proto(self) -> common_pb2.Edge:
        """The edge as a message. Raises InvalidArgument for an unknown policy."""
        return common_pb2.Edge(
            upstream=self.upstream,
            downstream=self.downstream,
            policy=policy_to_proto(self.policy),
            pinned=self.pinned,
            declared_by=self.declared_by,
        )

    @classmethod
    def from_proto(cls, message: common_pb2.Edge) -> Edge:
        """Returns the edge that a message has."""
        policy = policy_from_proto(message.policy)
        return cls(message.upstream, message.downstream, policy, message.pinned, tuple(message.declared_by))
