"""What is open: what has to be done, given only the state.

What a step makes necessary is `open_effects(after) - open_effects(before)`; what a restart makes necessary is
`open_effects(folded)`: the same function.
"""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Requirement, Submission

CANCEL_GRACE = 5.0
"""Seconds that attempts get to end after a run was cancelled; then the run ends without them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A task is ready: find an instance for it, not before `not_before` (wall seconds)."""

    task_id: str
    want: Requirement
    attempt: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Assign:
    """Give the attempt to its instance."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """The attempt was dispatched under an earlier epoch: ask its instance whether it still holds it."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """Tell the instance to stop."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the attempt what came of its delegation."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    delegation_id: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Tell the attempt how much more of the budget it may spend."""

    task_id: str
    attempt: int
    epoch: int
    instance_id: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Timer:
    """Wake the run at this time (wall seconds)."""

    at: float


Effect = Place | Assign | Adopt | CancelAttempt | Answer | Grant | Timer


def places(run: RunState) -> list[Place]:
    """The tasks that are ready, in the order they were made: each needs an instance."""
    said = run.submission
    if said is None:
        return []
    return [
        Place(task.task_id, want_of(said, task), task.attempt + 1, task.not_before)
        for task in run.tasks.values()
        if run.ready(task)
    ]


def open_effects(run: RunState) -> set[Effect]:
    """Everything that has to be done for this run and isn't done yet."""
    if run.submission is None or run.ended:
        return set()
    effects: set[Effect] = set(places(run))
    for task in run.tasks.values():
        for attempt, instance_id in task.abandoned:  # whoever told them before may have died with it
            effects.add(CancelAttempt(task.task_id, attempt, run.epoch, instance_id))
        if task.state.final:
            continue
        if task.live:
            _of_attempt(run, task, effects)
        if task.deadline and not task.answered and run.ending is None and not run.clock_stopped_since:
            effects.add(Timer(task.deadline))
    if run.ending is not None:
        effects.add(Timer(run.ending_since + CANCEL_GRACE))
    elif not run.clock_stopped_since:
        effects.add(Timer(run.deadline))
    return effects


def want_of(submission: Submission, task: Task) -> Requirement:
    """Who may take the task: what the run wants of the role, and what was delegated to a capability who has that."""
    want = submission.requirement(task.role)
    return Requirement(task.role, task.capability, want.version) if task.capability else want


def _of_attempt(run: RunState, task: Task, effects: set[Effect]) -> None:
    key = task.task_id, task.attempt, run.epoch, task.instance_id
    if run.ending is not None or task.stopping:
        effects.add(CancelAttempt(*key))
        return
    effects.add(Assign(*key) if task.dispatch_epoch == run.epoch else Adopt(*key))
    for delegation_id, delegation in task.delegations.items():
        if not delegation.cancelled and (delegation.failure is not None or run.tasks[delegation.child].answered):
            effects.add(Answer(*key, delegation_id))
    for request_id in task.requests:
        effects.add(Grant(*key, request_id))
