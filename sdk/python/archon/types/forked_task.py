"""The decisions of a fork about the tasks of its run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.types.memory_ref import MemoryRef


class ForkDecision(StrEnum):
    """The decision of a fork about a task: its recorded answer is taken over, or one that the caller has edited; it is
    executed; or it is skipped, because the answers that are taken over suffice."""

    UNSPECIFIED = "unspecified"
    REUSED = "reused"
    EDITED = "edited"
    EXECUTED = "executed"
    SKIPPED = "skipped"

    @classmethod
    def from_proto(cls, number: int) -> ForkDecision:
        """Returns the decision with a number; UNSPECIFIED if this version does not know it."""
        names: dict[int, str] = {value: name for name, value in pb.ForkDecision.items()}
        return cls.__members__.get(names.get(number, "").removeprefix("FORK_DECISION_"), cls.UNSPECIFIED)


@dataclass(frozen=True, slots=True)
class ForkedTask:
    """A task of the run that a fork would create. `task_id` and `parent_task_id` are ids in the forked run, empty if it
    has no such task. `reason` is a clause; `because` the event of the forked run whose use makes the task be executed,
    None if there is none."""

    task_id: str
    role: str
    step_id: str
    parent_task_id: str
    decision: ForkDecision
    reason: str
    because: MemoryRef | None = None

    @classmethod
    def from_proto(cls, message: pb.ForkedTask) -> ForkedTask:
        """Returns the task that a message has."""
        because = MemoryRef.from_proto(message.because) if message.HasField("because") else None
        decision = ForkDecision.from_proto(message.decision)
        names = message.task_id, message.role, message.step_id, message.parent_task_id
        return cls(*names, decision, message.reason, because)


@dataclass(frozen=True, slots=True)
class ForkPreview:
    """The beginning of a run that a fork would create: its tasks, and the revision of the forked run's plan; 0 without
    a plan."""

    tasks: tuple[ForkedTask, ...]
    plan_revision: int = 0

    def named(self, decision: ForkDecision) -> list[str]:
        """Returns the tasks with a decision, each by its step, or else its role."""
        return [task.step_id or task.role for task in self.tasks if task.decision is decision]
