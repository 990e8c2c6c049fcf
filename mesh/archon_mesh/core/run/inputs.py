"""What may reach a run from outside. The driver feeds these to `decide`, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon_mesh.core.run.types import NO_LIMIT, NOTHING, Amount, Budget, Failure, Payload, Submission, TaskState


@dataclass(frozen=True, slots=True)
class Submit:
    """A run is asked for; `owner` takes it on under `epoch`."""

    submission: Submission
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Claim:
    """`owner` goes on with the run under a new epoch."""

    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class SlotFound:
    """An instance has room for a task and keeps it free. `conversation` is the version of what its role remembers of
    the session, None where it remembers nothing."""

    task_id: str
    instance_id: str
    conversation: int | None = None


@dataclass(frozen=True, slots=True)
class ResultIn:
    """An agent sent a result. `payload` is its content, `records` how many calls were recorded with it."""

    task_id: str
    attempt: int
    state: TaskState
    payload: Payload = field(compare=False)
    failure: Failure | None = None
    publish: bool = True
    records: int = 0
    spent: Amount = NOTHING
    input_id: str = ""
    """Of the question, where a person is asked."""

    checkpointed: bool = False
    remembers: bool = False
    """True where it adds to its role's conversation."""

    read: int = 0
    """The version of the conversation that the agent says it has read; 0: it doesn't say."""

    overlong: bool = False
    """True where what it adds is more than is kept of one turn."""

    outdated: bool = False
    """True where that conversation has gone on since: another turn was stored."""


@dataclass(frozen=True, slots=True)
class CheckpointIn:
    """An attempt hands over what the next one is to go on from. `sequence` is the frame's place among its own."""

    task_id: str
    attempt: int
    sequence: int
    records: int = 0
    payload: Payload = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DelegateIn:
    """A task wants a part of itself done by `role`, or by whoever has `capability` (then `role` is who that is; empty:
    nobody; `others` have it too). `known` is false where nobody plays the role now. `digest` stands for target and
    input, `timeout` is in seconds, `sequence` the frame's place among those of its attempt."""

    task_id: str
    attempt: int
    delegation_id: str
    sequence: int
    role: str
    known: bool
    digest: str
    payload: Payload = field(default=None, compare=False)
    capability: str = ""
    memo_key: str = ""
    timeout: float = 60.0
    budget: Budget = NO_LIMIT
    checkpointed: bool = False
    records: int = 0
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelDelegationIn:
    """A task needs the answer to a delegation no more."""

    task_id: str
    attempt: int
    delegation_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class BudgetRequestIn:
    """An attempt is about to spend more than it was given."""

    task_id: str
    attempt: int
    request_id: str
    sequence: int
    wanted: Amount


@dataclass(frozen=True, slots=True)
class UsageIn:
    """An attempt says what it has spent so far."""

    task_id: str
    attempt: int
    spent: Amount


@dataclass(frozen=True, slots=True)
class RejectIn:
    """An instance didn't take an attempt. `delay` is how long it wants to be left alone, in seconds."""

    task_id: str
    attempt: int
    failure: Failure
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class LostIn:
    """The instance that held an attempt is gone, or doesn't hold it any more."""

    task_id: str
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class WorkingIn:
    """An attempt that nobody asked for is still worked on. It changes nothing: where it is over, it is to stop."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordsIn:
    """Calls were recorded ahead of the result."""

    task_id: str
    attempt: int
    count: int


@dataclass(frozen=True, slots=True)
class PublishedIn:
    """The shared memory took an answer of this run."""

    task_id: str
    seq: int
    version: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody asks for the run to end."""

    identity: str
    reason: str


@dataclass(frozen=True, slots=True)
class Respond:
    """A person answers a question. `digest` stands for the answer, `payload` is it."""

    input_id: str
    identity: str
    request_id: str
    digest: str
    payload: Payload = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Pause:
    """Somebody asks that nothing more be given out."""

    identity: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Somebody asks for a paused run to go on."""

    identity: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Command = Cancel | Respond | Pause | Resume
"""What callers ask of a run."""

Input = (
    Submit
    | Claim
    | SlotFound
    | ResultIn
    | DelegateIn
    | CancelDelegationIn
    | BudgetRequestIn
    | UsageIn
    | RejectIn
    | LostIn
    | WorkingIn
    | RecordsIn
    | PublishedIn
    | CheckpointIn
    | Cancel
    | Respond
    | Pause
    | Resume
    | Tick
)
