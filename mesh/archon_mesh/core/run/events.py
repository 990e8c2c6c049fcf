"""What happened in a run. Events are facts: folding them gives the state, and never decides anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon_mesh.core.run.common import Failure, Given, Payload, Submission, TaskState


@dataclass(frozen=True, slots=True)
class Submitted:
    """The run was taken on. The first event."""

    submission: Submission
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A new epoch: another owner, or the same after a restart."""

    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class TaskCreated:
    """A task was made, for one role."""

    task_id: str
    role: str


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A task was given to an instance. The attempt is the fence between dispatches."""

    task_id: str
    attempt: int
    epoch: int
    role: str
    instance_id: str
    given: tuple[Given, ...]


@dataclass(frozen=True, slots=True)
class ResultReceived:
    """The current attempt ended a task, with a final state."""

    task_id: str
    attempt: int
    role: str
    state: TaskState
    payload: Payload = field(compare=False)
    failure: Failure | None = None
    publish: bool = False


@dataclass(frozen=True, slots=True)
class Discarded:
    """A result came that doesn't count: of a superseded attempt, or too late."""

    task_id: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The attempt's instance is gone."""

    task_id: str
    attempt: int
    instance_id: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Rejected:
    """The instance didn't take the attempt. Not to be given out again before `not_before` (seconds, wall)."""

    task_id: str
    attempt: int
    instance_id: str
    failure: Failure
    not_before: float


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task ended without a result: cancelled, or given up."""

    task_id: str
    role: str
    attempt: int
    state: TaskState
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The run shall end: somebody asked, or (`cause` RUN_TIMEOUT) its time is over."""

    identity: str
    reason: str
    cause: str = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Published:
    """An answer reached the shared memory and got a version there."""

    task_id: str
    role: str
    seq: int
    version: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """So many model and tool calls of an attempt were stored beside the journal."""

    task_id: str
    attempt: int
    count: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event of every run. `answer_seqs` are the events that hold the final answers."""

    state: TaskState
    failure: Failure | None
    answer_seqs: tuple[int, ...]


Event = (
    Submitted
    | Claimed
    | TaskCreated
    | Dispatched
    | ResultReceived
    | Discarded
    | Lost
    | Rejected
    | TaskEnded
    | CancelRequested
    | Published
    | Recorded
    | RunEnded
)
