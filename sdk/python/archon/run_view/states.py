"""States of runs and tasks, and outcomes of attempts, by their display names."""

from __future__ import annotations

from enum import StrEnum


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
