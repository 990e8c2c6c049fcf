"""States of runs and tasks, by their display names."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from archon.api.common.v1 import common_pb2


class TaskState(StrEnum):
    """State of a task or a run; UNKNOWN is one that this version does not know."""

    UNSPECIFIED = "unspecified"
    SUBMITTED = "submitted"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    INPUT_REQUIRED = "input required"
    REJECTED = "rejected"
    AUTH_REQUIRED = "auth required"
    UNKNOWN = "unknown"

    @property
    def final(self) -> bool:
        """Whether no other state can follow."""
        return self in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)

    @property
    def proto(self) -> common_pb2.TaskState.ValueType:
        """The number in messages; UNSPECIFIED if the state is UNKNOWN."""
        return _NUMBERS.get(self, common_pb2.TASK_STATE_UNSPECIFIED)

    @classmethod
    def from_proto(cls, number: int) -> TaskState:
        """Returns the state with a number."""
        return _STATES.get(number, TaskState.UNKNOWN)


_STATES: Final[dict[int, TaskState]] = {
    number: TaskState[name.removeprefix("TASK_STATE_")] for name, number in common_pb2.TaskState.items()
}
_NUMBERS: Final = {state: common_pb2.TaskState.ValueType(number) for number, state in _STATES.items()}
