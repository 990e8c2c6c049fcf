"""Tasks of a run, and why they wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from archon.run_view.attempt import Attempt, Delegation, Outcome
from archon.run_view.question import Question
from archon.types.child_run import ChildRun
from archon.types.failure import Failure
from archon.types.plan import PlanStep
from archon.types.resolution import Resolution
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon.types.verdict import Verdict

EDITED_BY_KEY: Final = "dev.archon/edited-by"
"""The key of a result's metadata with the identity that gave it in place of the recorded one, in a fork."""


@dataclass(frozen=True, slots=True)
class LastFailure:
    """The last failure of a task. The outcome is FAILED for its own failure; LOST, REJECTED, GIVEN_BACK, RETRIED
    for an attempt (`retry_delay`: seconds to the next one); WORKING if more of the budget was refused."""

    outcome: Outcome
    failure: Failure
    instance_id: str = ""
    retry_delay: float = 0.0


@dataclass(slots=True)
class TaskView:
    """One task. Times are the event times, in seconds since the epoch; 0 if the event has not occurred."""

    task_id: str
    role: str
    created: float = 0.0
    parent_task_id: str = ""
    """The task that delegated this one; empty if none did."""
    step_id: str = ""
    """The step of the plan that the task executes; empty if none."""
    step: PlanStep | None = None
    """The step as the plan has it."""
    purpose: str = ""
    """The purpose of the planner's task: `plan 1`, `check of plan 1` or `answer`."""
    predecessors: tuple[str, ...] = ()
    """Ids of the tasks that must complete first, if the task's own event names them (`RunView.predecessors`)."""
    state: TaskState = TaskState.SUBMITTED
    ended: float = 0.0
    attempts: list[Attempt] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    failure: Failure | None = None
    """The failure that the task ended with."""
    last_failure: LastFailure | None = None
    stopping: Failure | None = None
    """Why the task is being stopped."""
    notes: list[Question | Delegation] = field(default_factory=list)
    """Exceptional events, as things were at the time: questions that were answered or timed out, and delegations that
    were refused, repeated or cancelled."""
    text: str = ""
    """The last 2,000 characters of the last attempt's text."""
    thinking: str = ""
    """The last 2,000 characters of the model's thinking, until text or a tool call follows it."""
    written: int = 0
    """Bytes of the last attempt's text."""
    children: set[str] = field(default_factory=set)
    """Ids of the tasks that it has delegated, in any attempt."""
    tool_calls: dict[str, str] = field(default_factory=dict)
    """Names of the tools that are executing, by call id."""
    checkpoint_bytes: int = 0
    """Size of the last checkpoint."""
    result_seq: int = 0
    """The event with the result; 0 before it."""
    reused: bool = False
    """Whether the answer was taken over from a forked run."""
    edited_by: str = ""
    """The identity that gave the answer in place of the recorded one, in a fork; empty if it was not edited."""
    resolution: Resolution | None = None
    """How the answer was chosen from the results of other steps, or why that was left to the role; None without a
    decision."""
    verdict: Verdict | None = None
    """How an arbiter has chosen the answer, if its result says so."""
    version: int = 0
    """Version of the answer in shared memory."""
    child_run: ChildRun | None = None
    """The run of another mesh that the task was, if its result or its last failure says so."""

    @property
    def label(self) -> str:
        """The display name: the role, and the step or the purpose of the planner's task."""
        return f"{self.role} ({self.step_id or self.purpose})" if self.step_id or self.purpose else self.role

    @property
    def final(self) -> bool:
        """Whether the task has ended."""
        return self.state.final

    @property
    def attempt(self) -> Attempt | None:
        """The last attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def question(self) -> Question | None:
        """The open question: a task asks one at a time."""
        return self.questions[-1] if self.questions and not self.questions[-1].ended else None

    @property
    def usage(self) -> Usage:
        """The usage of all attempts, as far as events have it."""
        return sum((attempt.usage for attempt in self.attempts if attempt.usage is not None), Usage())


class WaitKind(StrEnum):
    """Why a task waits: for other tasks, the answer of a person, the run to be resumed, or an instance."""

    TASKS = "tasks"
    PERSON = "person"
    RESUME = "resume"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a task waits. `names` are the names of the tasks: predecessors, or tasks that it has delegated."""

    kind: WaitKind
    names: tuple[str, ...] = ()
