"""Identities of attempts."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class TaskRef:
    """One attempt at one task. `attempt` is 1 for the first dispatch; `epoch` is the run owner's."""

    task_id: str
    run_id: str
    attempt: int = 1
    epoch: int = 0

    @property
    def proto(self) -> common_pb2.TaskRef:
        """The reference as a message."""
        return common_pb2.TaskRef(task_id=self.task_id, run_id=self.run_id, attempt=self.attempt, epoch=self.epoch)

    @classmethod
    def from_proto(cls, message: common_pb2.TaskRef) -> TaskRef:
        """Returns the reference that a message has."""
        return cls(message.task_id, message.run_id, message.attempt, message.epoch)
