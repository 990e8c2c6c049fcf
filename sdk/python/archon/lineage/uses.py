"""The references of one task's answer to the answers of other tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from archon.run_view.task import EDITED_BY_KEY
from archon.types.memory_ref import MemoryRef
from archon.types.task_state import TaskState

EDITED_RUN_KEY: Final = "dev.archon/edited-run"
"""The key of an edited result's metadata with the forked run."""

EDITED_SEQ_KEY: Final = "dev.archon/edited-seq"
"""The key of an edited result's metadata with the event of the forked run that it replaces; 0 if that had none."""

INPUT_PREFIX: Final = "dev.archon/input/"
"""The beginning of the keys of a forked run's metadata with the inputs that roles receive in place of the goal."""

EDIT_KEYS: Final = (EDITED_BY_KEY, EDITED_RUN_KEY, EDITED_SEQ_KEY)


class UseKind(StrEnum):
    """How one task's answer rests on another task."""

    ANSWER = "answer"
    """It received the other's answer, or an item of it, as context."""
    DELEGATION = "delegation"
    """It delegated to the other, which answered."""
    ARGUMENT = "argument"
    """The arguments of its tool were made of the other's answer."""
    CANDIDATE = "candidate"
    """A rule has chosen it from the results of others, this one among them."""
    AWARD = "award"
    """The other one's decision says who executes it."""
    MESSAGE = "message"
    """It has read a message of the other."""
    PLAN = "plan"
    """The other, the planner's task, made the plan with its step."""
    RESULT = "result"
    """It is the planner's task, and the other's result was there when it made a plan."""


@dataclass(frozen=True, slots=True)
class Use:
    """A use of another task of the run: of its answer, item or message, which is event `seq`."""

    kind: UseKind
    task_id: str
    seq: int = 0


@dataclass(slots=True)
class TaskLineage:
    """A task, and the answers that its attempt has received. `given` are the answers delivered with the attempt that
    counts; `used` the ones that its result names, the given ones if it names none."""

    task_id: str
    role: str
    step_id: str = ""
    parent_task_id: str = ""
    predecessors: tuple[str, ...] = ()
    align: bool = False
    """Whether it is the planner's task that checks whether the plan still leads to the goal."""
    attempt: int = 0
    state: TaskState = TaskState.SUBMITTED
    result_seq: int = 0
    """The event with the result; 0 before it."""
    given: tuple[MemoryRef, ...] = ()
    used: tuple[MemoryRef, ...] = ()
    names_used: bool = False
    """Whether the result says which answers it used."""
    messages_read: int = 0
    is_decided: bool = False
    """Whether a rule has chosen the result from the results of other steps."""
    winner_step_id: str = ""
    is_edited: bool = False
    """Whether a caller gave the answer in place of the recorded one: it rests on nothing else."""
    edited_by: str = ""
    """The identity that gave it; empty if it was not edited."""
    edited_seq: int = 0
    """The event of the forked run that the edited answer replaces; 0 if there is none."""
    children: dict[str, str] = field(default_factory=dict)
    """The tasks that it has delegated, by the keys under which the delegations are remembered."""
    cancelled: set[str] = field(default_factory=set)
    """The delegated tasks whose answers it no longer needs."""
    plan_revision: int = 0
    """The revision of the plan with its step, when its task was created; 0 if it executes none."""

    @property
    def label(self) -> str:
        """The display name: the role, and the step if it executes one."""
        return f"{self.role} ({self.step_id})" if self.step_id and self.role else self.role or self.step_id

    @property
    def completed(self) -> bool:
        """Whether it has an answer."""
        return self.state is TaskState.COMPLETED

    @property
    def reused(self) -> bool:
        """Whether the answer was taken over from a forked run, as it was recorded or edited."""
        return self.completed and not self.attempt and not self.is_decided

    @property
    def unread(self) -> tuple[MemoryRef, ...]:
        """The answers that were delivered and that the result does not name; empty if it names none at all."""
        if not self.names_used:
            return ()
        return tuple(ref for ref in self.given if not any(_is_same(ref, other) for other in self.used))


def _is_same(ref: MemoryRef, other: MemoryRef) -> bool:
    if ref.seq and other.seq:
        return (ref.seq, ref.run_id or other.run_id) == (other.seq, other.run_id or ref.run_id)
    return (ref.role, ref.version) == (other.role, other.version)
