"""What is done about a failure: first recovery, fallback, escalation, by its kind. Nothing else decides it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from archon_mesh.core.run.types import Failure, quantize


class Kind(Enum):
    """How an attempt came to nothing."""

    LOST = "its process, or the way to it, is gone"
    REFUSED = "its instance didn't take it"
    TRANSIENT = "it failed, and says that trying again may help"
    OUTDATED = "another turn of the conversation that it goes on from was stored first"
    PERMANENT = "it failed, or the role refuses"


class Escalation(Enum):
    """What a task's failure becomes when recovery has come to its end; a delegated task's is its parent's to judge."""

    POISONED = "the run fails: the task takes its process with it"
    AS_IT_IS = "the run fails with the last failure"


@dataclass(frozen=True, slots=True)
class Recovery:
    """`tries` in all; between two of them at least `least` seconds, doubled each time up to `most`, or as long as the
    failure asks for within `most`. The first recovery is another attempt, wherever there is room; the fallback is
    another instance, since the one that failed is lost, full, or no better than the others."""

    tries: int
    least: float
    most: float
    escalation: Escalation


RECOVERY: Final = {
    Kind.LOST: Recovery(3, 0.0, 0.0, Escalation.POISONED),
    Kind.REFUSED: Recovery(50, 0.05, 5.0, Escalation.AS_IT_IS),
    Kind.TRANSIENT: Recovery(3, 0.5, 30.0, Escalation.AS_IT_IS),
    Kind.OUTDATED: Recovery(20, 0.0, 0.0, Escalation.AS_IT_IS),
    Kind.PERMANENT: Recovery(1, 0.0, 0.0, Escalation.AS_IT_IS),
}

CONVERSATION_MOVED: Final = "CONVERSATION_MOVED"
"""The reason of a failure of the kind OUTDATED."""

ERROR_BUDGET: Final = 100
"""So many lost and failed attempts a run recovers from, over all its tasks; refusals, and turns that
came second, cost it nothing."""


def kind_of(failure: Failure | None) -> Kind:
    """Of a result that is no success. A retry delay advises to try again (google.rpc.RetryInfo); nothing else does."""
    return Kind.TRANSIENT if failure is not None and failure.retry_delay is not None else Kind.PERMANENT


def next_try(kind: Kind, tried: int, asked: float | None, now: float) -> float | None:
    """Not before when (wall seconds) the next attempt is due, after so many of this kind; None: there is none."""
    recovery = RECOVERY[kind]
    if tried >= recovery.tries:
        return None
    pause = max(asked or 0.0, recovery.least * 2 ** min(tried - 1, 20))
    return quantize(now + min(recovery.most, pause))


def over_budget(recovered: int) -> Failure | None:
    """Why a run that has recovered so often does so no more."""
    if recovered < ERROR_BUDGET:
        return None
    return Failure(
        "RESOURCE_EXHAUSTED",
        "ERROR_BUDGET_EXHAUSTED",
        f"the run has recovered from {ERROR_BUDGET} lost and failed attempts, which is all that one may",
    )
