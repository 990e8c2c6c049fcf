"""Items to publish in the shared memory, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archon.api.memory.v1 import memory_pb2
from archon.errors import InvalidArgument
from archon.propagation import PropagationPolicy
from archon.wire import duration, policy_from_proto, policy_to_proto, to_seconds


@dataclass(frozen=True, slots=True)
class PublishItem:
    """An answer of `role` to publish; a blank one is not. Edges of this `policy` or a wider one let it through.

    `metadata` is merged with the earlier item's, of the same role and task; `ttl` is in seconds, None means forever.
    Items of a run have its `run_id`, the `epoch` of its owner, the `seq` of their event, by which a late writer is
    refused, and their task.
    """

    role: str
    content: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    ttl: float | None = None
    run_id: str = ""
    epoch: int = 0
    seq: int = 0
    task_id: str = ""

    @property
    def proto(self) -> memory_pb2.PublishItem:
        """The item as a message. Raises InvalidArgument if a value cannot be encoded."""
        try:
            return memory_pb2.PublishItem(
                role=self.role,
                content=self.content,
                metadata=self.metadata,
                policy=policy_to_proto(self.policy),
                ttl=None if self.ttl is None else duration(self.ttl),
                run_id=self.run_id,
                epoch=self.epoch,
                seq=self.seq,
                task_id=self.task_id,
            )
        except (TypeError, AttributeError, UnicodeEncodeError) as error:
            raise InvalidArgument(f"the item of {self.role} cannot be encoded: {error}") from None

    @classmethod
    def from_proto(cls, message: memory_pb2.PublishItem) -> PublishItem:
        """Returns the item that a message has."""
        return cls(
            message.role,
            message.content,
            dict(message.metadata),
            policy_from_proto(message.policy),
            to_seconds(message.ttl) if message.HasField("ttl") else None,
            message.run_id,
            message.epoch,
            message.seq,
            message.task_id,
        )


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of an item: its `version`, 0 if it was blank and nothing was published. With `repeated_before` the
    version is from an earlier publish of the same event."""

    role: str
    version: int
    repeated_before: bool = False

    @property
    def proto(self) -> memory_pb2.Published:
        """The outcome as a message."""
        return memory_pb2.Published(role=self.role, version=self.version, repeated_before=self.repeated_before)

    @classmethod
    def from_proto(cls, message: memory_pb2.Published) -> Published:
        """Returns the outcome that a message has."""
        return cls(message.role, message.version, message.repeated_before)
