"""The recovery table: the action on a failed attempt, by the kind of failure. Nothing else decides about retries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from archon.failure_kinds import ErrorSeverity, RetryAdvice
from archon_mesh.engine.state import RunState
from archon_mesh.engine.types import Failure, quantize


class Kind(Enum):
    """How an attempt failed."""

    LOST = "its process, or the connection to it, is gone"
    REFUSED = "its instance rejected it"
    RETURNED = "its instance stops on purpose, and rejected it or gave it back"
    TRANSIENT = "it failed and advises a retry"
    CONFLICT = "another turn of its conversation was stored first"
    PERMANENT = "it failed without advising a retry, or the role rejected the task"


@dataclass(frozen=True, slots=True)
class Recovery:
    """At most `tries` attempts. The pause between two starts at `least` seconds and doubles up to `most`, or is the one
    that the failure asks for, up to `most`. The next attempt goes to any instance with a free slot."""

    tries: int
    least: float
    most: float


RECOVERY: Final = {
    Kind.LOST: Recovery(3, 0.0, 0.0),
    Kind.REFUSED: Recovery(50, 0.05, 5.0),
    Kind.RETURNED: Recovery(1_000, 0.05, 0.05),
    Kind.TRANSIENT: Recovery(3, 0.5, 30.0),
    Kind.CONFLICT: Recovery(20, 0.0, 0.0),
    Kind.PERMANENT: Recovery(1, 0.0, 0.0),
}

ERROR_BUDGET: Final = 100
"""How many lost and failed attempts a run recovers from, over all its tasks. Rejections, conversation conflicts and
attempts that were given back do not count."""

MAX_ALIKE: Final = 3
"""Failures of one kind among a run's last ones above which the next one is of high severity."""


def kind_of(failure: Failure | None) -> Kind:
    """The kind of a result that is no success."""
    return Kind.TRANSIENT if failure is not None and failure.retry != RetryAdvice.NEVER else Kind.PERMANENT


def next_try(kind: Kind, tried: int, asked: float | None, now: float, tries: int = 0) -> float | None:
    """The earliest time of the next attempt (wall seconds) after `tried` failures of this kind; None if there is none.

    `asked` is the pause that the failure asks for, in seconds. `tries` are the attempts if failures may pass; 0: as the
    table says.
    """
    recovery = RECOVERY[kind]
    if tried >= (tries if tries and kind is Kind.TRANSIENT else recovery.tries):
        return None
    pause = max(asked or 0.0, recovery.least * 2 ** min(tried - 1, 20))
    return quantize(now + min(recovery.most, pause))


def raised(run: RunState, failure: Failure) -> Failure:
    """The failure, raised to high severity if more than MAX_ALIKE of the run's last failures are of its kind."""
    if run.recent_kinds.count(failure.kind) < MAX_ALIKE or failure.severity >= ErrorSeverity.HIGH:
        return failure
    return replace(failure, severity=int(ErrorSeverity.HIGH))


def recovery_exhausted(recovered: int) -> Failure | None:
    """The failure of a run that has used up its error budget; None if it has not."""
    if recovered < ERROR_BUDGET:
        return None
    return Failure(
        "RESOURCE_EXHAUSTED",
        "ERROR_BUDGET_EXHAUSTED",
        f"the run has recovered from {ERROR_BUDGET} lost and failed attempts, the most that a run may have",
    )
