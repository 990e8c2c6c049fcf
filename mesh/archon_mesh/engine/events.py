"""The events of a run. They are facts: the fold derives the state from them and makes no decision of its own."""

from __future__ import annotations

from dataclasses import field

from archon_mesh.core.people import NO_TERMS, Breakpoint, Decision, QuestionKind, QuestionTerms, TimeoutPolicy
from archon_mesh.core.value import value
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import (
    NO_LIMIT,
    NO_ORIGIN,
    NOTHING,
    Amount,
    Budget,
    ClockOrigin,
    ContextRef,
    Failure,
    InstanceChoice,
    Item,
    Payload,
    Submission,
    TaskState,
)


@value
class Submitted:
    """The run was created. The first event of every run."""

    submission: Submission
    owner: str
    epoch: int
    origin: ClockOrigin = NO_ORIGIN


@value
class Claimed:
    """A new epoch began: with another owner, or with the same one after a restart."""

    owner: str
    epoch: int
    origin: ClockOrigin = NO_ORIGIN


@value
class TaskCreated:
    """A task of one role was created: by the run, or by the delegation of the task `parent`.

    `predecessors` are the tasks that it waits for, and `step_id` is the step of a plan that it executes. A task of a
    pipeline has neither: its predecessors follow from the edges of the submission. With `align` the planner is asked
    whether the plan in force still leads to the goal.
    """

    task_id: str
    role: str
    parent: str = ""
    predecessors: tuple[str, ...] = ()
    step_id: str = ""
    align: bool = False


@value
class Planned:
    """The plan of the run changed: the planner's task `task_id` made it, or `identity` edited it by the edit `edit_id`.

    Steps that have completed, and those in progress whose ids the plan has, keep their tasks; the other tasks of the
    plan before were ended by the events before this one, and the events after it create the tasks of the new steps.
    `changes` are the repairs that the plan needed. With `expansion`, the planner completed the plan as far as it could,
    which is no replan: steps that wait as before keep their tasks too. `reason` says why a plan that was asked whether
    it still leads to the goal was replaced.
    """

    task_id: str
    revision: int
    plan: Plan
    changes: tuple[str, ...] = ()
    identity: str = ""
    edit_id: str = ""
    expansion: bool = False
    reason: str = ""


@value
class Dispatched:
    """A task was assigned to an instance. The attempt number fences off earlier dispatches.

    `context` lists the answers that the attempt receives, `reserved` is its slice of the budget (None if no budget
    applies), `conversation_version` the version of the role's conversation that it receives (None: it is stateless).
    `placement` says why the instance was chosen (None: there was no other). `expected_seconds` is the measured time of
    the role, in seconds, after which a copy of the step with a `delay_quantile` starts; 0 if there is none.
    """

    task_id: str
    attempt: int
    epoch: int
    role: str
    instance_id: str
    context: tuple[ContextRef, ...]
    reserved: Amount | None = None
    conversation_version: int | None = None
    placement: InstanceChoice | None = None
    expected_seconds: float = 0.0
    ignores_breakpoints: bool = False
    """True if the run has breakpoints at calls of tools or models, and the agent's runtime cannot hold there."""


@value
class Delegated:
    """A task delegated to the task `child`, which is new or was memoized under `memo_key`; `child` is empty if the
    delegation was refused with `failure`.

    `payload` is the request, `sequence` the sequence number of its frame; `checkpointed` is true if the payload carries
    a checkpoint.
    """

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


@value
class DelegationCancelled:
    """The task no longer needs the answer to this delegation."""

    task_id: str
    attempt: int
    delegation_id: str
    sequence: int


@value
class BudgetReserved:
    """An attempt's request for more budget was decided; `reserved` is None if too little is left, as `failure` says."""

    task_id: str
    attempt: int
    request_id: str
    sequence: int
    reserved: Amount | None
    failure: Failure | None = None


@value
class ResultReceived:
    """The current attempt ended its task with a final state. `stores_turn` is true if its turn of the role's
    conversation is stored in the same append. `winner` is the step whose result a rule has chosen; empty if none
    has."""

    task_id: str
    attempt: int
    role: str
    state: TaskState
    payload: Payload = field(compare=False)
    failure: Failure | None = None
    publish: bool = False
    spent: Amount = NOTHING
    stores_turn: bool = False
    confidence: float = 1.0
    winner: str = ""


@value
class InputRequested:
    """An attempt asks a person; the run's clock is stopped until the answer. The attempt has ended with the question,
    or continues: then it asked with a frame with the sequence number `sequence`, else that is 0.

    `input_id` is unique in the run; `checkpointed` is true if the payload carries a checkpoint.
    """

    task_id: str
    attempt: int
    role: str
    input_id: str
    payload: Payload = field(compare=False)
    spent: Amount = NOTHING
    checkpointed: bool = False
    sequence: int = 0
    kind: QuestionKind = QuestionKind.UNSPECIFIED
    terms: QuestionTerms = NO_TERMS


@value
class ApprovalRequested:
    """A person is asked for approval, because a rule of the run says so. The attempt has ended, and its continuation
    waits: with `plan` the plan that the result holds (`changes` are the repairs that it needed), with `failure` the
    next attempt, else the result itself. `publish`, `items` and `winner` as in ResultReceived."""

    task_id: str
    attempt: int
    role: str
    input_id: str
    terms: QuestionTerms
    payload: Payload = field(compare=False)
    failure: Failure | None = None
    spent: Amount = NOTHING
    publish: bool = False
    items: tuple[Item, ...] = ()
    plan: Plan | None = None
    changes: tuple[str, ...] = ()
    message: str = field(default="", compare=False)
    """The text of the question."""
    reason: str = ""
    """As in Planned."""
    winner: str = ""
    breakpoint: str = ""
    """The breakpoint before the dispatch of the task, if no result waits; then there is no payload."""


@value
class BreakpointsSet:
    """A caller set the breakpoints of the run, in place of all that it had."""

    identity: str
    breakpoints: tuple[Breakpoint, ...]


@value
class QuestionTimedOut:
    """No answer to a question came in time, and `policy` is applied; `level` is the number of the approver who is asked
    now, if it is `escalate`. The events after it hold the consequences."""

    task_id: str
    input_id: str
    rule: str
    policy: TimeoutPolicy
    level: int = 0


@value
class InputGiven:
    """A person answered, or the default answer counts (`identity` is empty): the task can be dispatched again, or the
    result that waited for approval counts. `digest` identifies the answer."""

    task_id: str
    input_id: str
    identity: str
    request_id: str
    digest: str
    payload: Payload = field(compare=False)
    decision: Decision = Decision.UNSPECIFIED


@value
class CheckpointTaken:
    """An attempt stored a checkpoint for the next attempt. `sequence` is the sequence number of its frame."""

    task_id: str
    attempt: int
    sequence: int
    payload: Payload = field(compare=False)


@value
class ItemPublished:
    """A task published an item: with a frame of its own, which has the sequence number `sequence`, or with its result
    (0)."""

    task_id: str
    attempt: int
    role: str
    sequence: int
    item: Item


@value
class MessageSent:
    """A task sent a message to others of the run; with `failure` it was refused and is not delivered. With `first_seq`
    an earlier attempt sent the same message, by that event, and it is not delivered twice. `type` and `ttl` as in
    SentMessage, `size` in bytes. `sequence` is the sequence number of its frame."""

    task_id: str
    attempt: int
    role: str
    sequence: int
    message_id: str
    receiver: str
    type: str
    correlation_id: str = ""
    ttl: float = 0.0
    size: int = 0
    payload: Payload = field(default=None, compare=False)
    failure: Failure | None = None
    first_seq: int = 0


@value
class Subscribed:
    """The attempt receives the messages for its task, its step and its role, and of the topics. `sequence` is the
    sequence number of its frame."""

    task_id: str
    attempt: int
    sequence: int
    topics: tuple[str, ...]


@value
class Paused:
    """No more tasks are dispatched and the run's clock is stopped; live attempts continue."""

    identity: str


@value
class Resumed:
    """A paused run was resumed: tasks are dispatched again, and its clock goes on."""

    identity: str


@value
class Discarded:
    """A result was discarded: its attempt is superseded, or it came too late. `payload` has its spending."""

    task_id: str
    attempt: int
    reason: str
    payload: Payload = field(default=None, compare=False)


@value
class Lost:
    """The attempt was lost with its instance."""

    task_id: str
    attempt: int
    instance_id: str
    failure: Failure


@value
class Rejected:
    """The instance rejected the attempt. The task is not dispatched again before `not_before` (wall seconds)."""

    task_id: str
    attempt: int
    instance_id: str
    failure: Failure
    not_before: float


@value
class Retried:
    """The attempt failed and is retried. The task is not dispatched again before `not_before` (wall seconds)."""

    task_id: str
    attempt: int
    role: str
    failure: Failure
    not_before: float
    spent: Amount = NOTHING
    payload: Payload = field(default=None, compare=False)


@value
class TaskStopping:
    """A live attempt was ordered to stop: its answer is no longer needed, or its time is over."""

    task_id: str
    role: str
    attempt: int
    failure: Failure


@value
class TaskEnded:
    """A task ended without a result: it was cancelled, or it failed for good."""

    task_id: str
    role: str
    attempt: int
    state: TaskState
    failure: Failure | None


@value
class CancelRequested:
    """The run must end, for `cause`: on request, because it timed out, or because a limit was exceeded. `failure` is
    the run's final failure; None if a caller cancelled it, and in journals of earlier revisions."""

    identity: str
    reason: str
    cause: str = "CANCELLED"
    failure: Failure | None = None


@value
class Published:
    """The shared memory stored an answer under `version`."""

    task_id: str
    role: str
    seq: int
    version: int


@value
class Recorded:
    """`count` records of an attempt's model and tool calls were stored in the same append. `sequence` is the number of
    the last frame with one of them, if they were stored ahead of the frame that they precede; else 0."""

    task_id: str
    attempt: int
    count: int
    sequence: int = 0


@value
class RunEnded:
    """The run ended. The last event of every run; `answer_seqs` are the events with its final answers."""

    state: TaskState
    failure: Failure | None
    answer_seqs: tuple[int, ...]


Event = (
    Submitted
    | Claimed
    | TaskCreated
    | Planned
    | Dispatched
    | Delegated
    | DelegationCancelled
    | BudgetReserved
    | ResultReceived
    | InputRequested
    | ApprovalRequested
    | BreakpointsSet
    | QuestionTimedOut
    | InputGiven
    | CheckpointTaken
    | ItemPublished
    | MessageSent
    | Subscribed
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
