"""Identities of published answers."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A published answer: `version` of `role` in `scope` (the id of a session, or of a run), and the event `seq` of the
    run `run_id` that holds it. `version` is 0 if the answer was read from the run's journal."""

    scope: str
    role: str
    version: int = 0
    run_id: str = ""
    seq: int = 0

    @property
    def proto(self) -> common_pb2.MemoryRef:
        """The reference as a message."""
        return common_pb2.MemoryRef(
            scope=self.scope, role=self.role, version=self.version, run_id=self.run_id, seq=self.seq
        )

    @classmethod
    def from_proto(cls, message: common_pb2.MemoryRef) -> MemoryRef:
        """Returns the reference that a message has."""
        return cls(message.scope, message.role, message.version, message.run_id, message.seq)
