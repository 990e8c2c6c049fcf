"""Attempts at tasks, and the delegations of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from archon.types.failure import Failure
from archon.types.usage import Usage


class Outcome(StrEnum):
    """How an attempt ended; WORKING if it has not."""

    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
    """The instance rejected the attempt, or the role refused the task."""
    GIVEN_BACK = "given back"
    RETRIED = "retried"
    LOST = "lost"
    ASKED = "asked"
    """It ended with a question to a person."""


@dataclass(slots=True)
class Delegation:
    """A delegation, which ends with the delegated task, unless it was refused, or `cancelled` before (0: it was not).
    `repeated`: an earlier delegation has created the task."""

    delegation_id: str
    child_task_id: str = ""
    role: str = ""
    started: float = 0.0
    cancelled: float = 0.0
    refusal: Failure | None = None
    repeated: bool = False


@dataclass(slots=True)
class Attempt:
    """One dispatch of a task to an instance. Times are in seconds since the epoch; `ended` is 0 while it goes on."""

    number: int
    instance_id: str
    started: float
    ended: float = 0.0
    outcome: Outcome = Outcome.WORKING
    failure: Failure | None = None
    stopping: Failure | None = None
    """Why it was ordered to stop."""
    usage: Usage | None = None
    """Its usage; None if no event has it."""
    retry_time: float = 0.0
    """The earliest time of the next attempt; 0 if it may start at once."""
    given: tuple[tuple[str, bool], ...] = ()
    """The roles whose answers it received, and whether an earlier run of the session gave them."""
    delegations: list[Delegation] = field(default_factory=list)
    budget_refused: bool = False
    """Whether a request for more of the budget was refused."""
    discarded: bool = False
    """Whether a result came too late."""
