"""Tasks of runs."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.types.failure import Failure
from archon.types.message_view import MessageView
from archon.types.resolution import Resolution
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon.wire import to_seconds


class RunTask(MessageView[run_pb2.Task]):
    """A task of a run. Times are in seconds since the epoch; 0 if they are not set."""

    __slots__ = ()

    _SHOWN = ("task_id", "role", "state")

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.proto.task_id

    @property
    def role(self) -> str:
        """The role that the task is for."""
        return self.proto.role

    @property
    def state(self) -> TaskState:
        """The task's state."""
        return TaskState.from_proto(self.proto.state)

    @property
    def attempt(self) -> int:
        """Number of the last attempt; 0 before the first, or if the answer is reused from another run."""
        return self.proto.attempt

    @property
    def instance_id(self) -> str:
        """The instance of the last attempt."""
        return self.proto.instance_id

    @property
    def waiting_for(self) -> str:
        """Why the task waits if it is not dispatched."""
        return self.proto.waiting_for

    @property
    def result_seq(self) -> int:
        """The event that holds the result; 0 before."""
        return self.proto.result_seq

    @property
    def memory_version(self) -> int:
        """Version of the answer in the shared memory; 0 if it is not published."""
        return self.proto.memory_version

    @property
    def start_time(self) -> float:
        """When the last attempt was dispatched."""
        return to_seconds(self.proto.start_time)

    @property
    def end_time(self) -> float:
        """When the task ended."""
        return to_seconds(self.proto.end_time)

    @property
    def usage(self) -> Usage:
        """The task's usage."""
        return Usage.from_proto(self.proto.usage)

    @property
    def failure(self) -> Failure | None:
        """Why the task failed."""
        return Failure.from_proto(self.proto.failure) if self.proto.HasField("failure") else None

    @property
    def parent_task_id(self) -> str:
        """The task that delegated this one; empty if none did."""
        return self.proto.parent_task_id

    @property
    def step_id(self) -> str:
        """The step of the plan that the task executes; empty if none."""
        return self.proto.step_id

    @property
    def resolution(self) -> Resolution | None:
        """How the answer was chosen from the results of other steps; None for a step without a decision."""
        return Resolution.from_proto(self.proto.resolution) if self.proto.HasField("resolution") else None

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The tasks that must complete first, of a task that executes a step."""
        return tuple(self.proto.predecessors)
