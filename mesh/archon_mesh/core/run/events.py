"""What happened in a run. Events are facts: folding them gives the state, and never decides anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon_mesh.core.run.types import (
    NO_LIMIT,
    NOTHING,
    Amount,
    Budget,
    ContextRef,
    Failure,
    Payload,
    Submission,
    TaskState,
)


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
    """A task was made, for one role: by the run, or by the task `parent` that delegated it."""

    task_id: str
    role: str
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A task was given to an instance. The attempt is the fence between dispatches; `reserved` is its slice of the
    budget, None where the run has none; `conversation` the version of what the role was told that it remembers."""

    task_id: str
    attempt: int
    epoch: int
    role: str
    instance_id: str
    given: tuple[ContextRef, ...]
    reserved: Amount | None = None
    conversation: int | None = None


@dataclass(frozen=True, slots=True)
class Delegated:
    """A task handed a part of itself on: to the task `child`, new or remembered under `memo_key`; empty where it was
    refused, for `failure`. `payload` is what is asked, `sequence` the place of the frame that asked it; `checkpointed`
    where the payload brings a checkpoint along."""

    task_id: str
    attempt: int
    delegation_id: str
    child: str
    role: str
    memo_key: str
    sequence: int
    capability: str = ""
    timeout: float = 0.0
    budget: Budget = NO_LIMIT
    checkpointed: bool = False
    payload: Payload = field(default=None, compare=False)
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class DelegationCancelled:
    """The task needs no answer any more."""

    task_id: str
    attempt: int
    delegation_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class BudgetReserved:
    """More of the budget for an attempt; `reserved` is None where there is not so much left."""

    task_id: str
    attempt: int
    request_id: str
    sequence: int
    reserved: Amount | None


@dataclass(frozen=True, slots=True)
class ResultReceived:
    """The current attempt ended a task, with a final state. `remembered`: what it adds to its role's conversation is
    stored with it."""

    task_id: str
    attempt: int
    role: str
    state: TaskState
    payload: Payload = field(compare=False)
    failure: Failure | None = None
    publish: bool = False
    spent: Amount = NOTHING
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class InputRequested:
    """The attempt is over: a person is asked, and the run's clock stands until the answer. `input_id` is unique in the
    run; `checkpointed` where the payload brings a checkpoint along."""

    task_id: str
    attempt: int
    role: str
    input_id: str
    payload: Payload = field(compare=False)
    spent: Amount = NOTHING
    checkpointed: bool = False


@dataclass(frozen=True, slots=True)
class InputGiven:
    """A person has answered: the task that asked may be given out again. `digest` stands for what was said."""

    task_id: str
    input_id: str
    identity: str
    request_id: str
    digest: str
    payload: Payload = field(compare=False)


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """The next attempt goes on from `payload`. `sequence` is the place of the frame that brought it."""

    task_id: str
    attempt: int
    sequence: int
    payload: Payload = field(compare=False)


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing more is given out; what is under way goes on, and the run's clock stands."""

    identity: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run goes on."""

    identity: str


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
class Retried:
    """The attempt failed in a way that may pass. The task isn't to be given out again before `not_before` (seconds,
    wall)."""

    task_id: str
    attempt: int
    role: str
    failure: Failure
    not_before: float
    spent: Amount = NOTHING
    payload: Payload = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskStopping:
    """An attempt is under way that nobody needs any more, or whose time is over: it is to stop."""

    task_id: str
    role: str
    attempt: int
    failure: Failure


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
    """The run shall end: somebody asked, or (`cause`) its time is over, or its budget is spent."""

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
    | Delegated
    | DelegationCancelled
    | BudgetReserved
    | ResultReceived
    | InputRequested
    | InputGiven
    | CheckpointTaken
    | Paused
    | Resumed
    | Discarded
    | Lost
    | Rejected
    | Retried
    | TaskStopping
    | TaskEnded
    | CancelRequested
    | Published
    | Recorded
    | RunEnded
)
