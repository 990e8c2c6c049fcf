"""What is open: what has to be done, given only the state.

What a step makes necessary is `open_effects(after) - open_effects(before)`; what a restart makes necessary is
`open_effects(folded)`: the same function.
"""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.core.run.common import Want
from archon_mesh.core.run.state import RunState

CANCEL_GRACE = 5.0
"""Seconds that attempts get to end after a run was cancelled; then the run ends without them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A task is ready: find an instance for it, not before `not_before` (wall seconds)."""

    task_id: str
    want: Want
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
class Alarm:
    """Wake the run at this time (wall seconds)."""

    at: float


Effect = Place | Assign | Adopt | CancelAttempt | Alarm


def open_effects(run: RunState) -> set[Effect]:
    """Everything that has to be done for this run and isn't done yet."""
    if run.submission is None or run.ended:
        return set()
    effects: set[Effect] = set()
    for task in run.tasks.values():
        if task.live:
            if run.ending is not None:
                effects.add(CancelAttempt(task.task_id, task.attempt, run.epoch, task.instance_id))
            elif task.dispatch_epoch == run.epoch:
                effects.add(Assign(task.task_id, task.attempt, run.epoch, task.instance_id))
            else:
                effects.add(Adopt(task.task_id, task.attempt, run.epoch, task.instance_id))
        elif run.ready(task):
            effects.add(Place(task.task_id, run.submission.want(task.role), task.attempt + 1, task.not_before))
    effects.add(Alarm(run.deadline if run.ending is None else run.ending_since + CANCEL_GRACE))
    return effects
