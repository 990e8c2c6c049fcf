"""The inputs of a run: submissions, frames of agents, commands of callers, time. The driver passes them to `decide`."""

from __future__ import annotations

from dataclasses import field

from archon_mesh.core.people import NO_TERMS, Breakpoint, Decision, QuestionKind, QuestionTerms
from archon_mesh.core.value import value
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import (
    NO_LIMIT,
    NO_ORIGIN,
    NOTHING,
    Amount,
    Budget,
    ClockOrigin,
    Failure,
    InstanceChoice,
    Item,
    Payload,
    Submission,
    TaskState,
)


@value
class ReusedAnswer:
    """The answer that a role gave in the run that a new run is forked from, to the step `step_id` if it had a plan; the
    answer of a plan's planner without a step combines the results. `publish` and `items` as in ResultIn, `winner` as in
    DecisionIn."""

    role: str
    payload: Payload = field(compare=False)
    publish: bool = True
    items: tuple[Item, ...] = ()
    step_id: str = ""
    winner: str = ""


@value
class ReusedPlan:
    """The plan of the run that a new run is forked from; `payload` is the answer of its planner."""

    plan: Plan
    changes: tuple[str, ...] = ()
    payload: Payload = field(default=None, compare=False)


@value
class ReusedInput:
    """A person's answer to a task that is executed anew, by its role, and its step if the run has a plan. `input_id` is
    the agent's id of the question, `payload` the question, and `result` the answer; the other fields as in
    InputRequested and InputGiven."""

    role: str
    step_id: str
    input_id: str
    identity: str
    request_id: str
    digest: str
    kind: QuestionKind = QuestionKind.UNSPECIFIED
    decision: Decision = Decision.UNSPECIFIED
    checkpointed: bool = False
    payload: Payload = field(default=None, compare=False)
    result: Payload = field(default=None, compare=False)


@value
class ReusedDelegation:
    """A delegation of the forked run by a task that is executed anew: if it delegates the same again, under the same
    `memo_key`, this task of `role` answers.

    The task of `owner`, a step if the run has a plan and else a role, has delegated it; or, if `parent` is not
    negative, the task of the delegation at that position among the reused ones. `payload` is the request. A task that
    has not `completed` is executed anew once it is requested: it is here for the delegations that it made; else
    `result` is its answer, `publish` and `items` as in ReusedAnswer."""

    owner: str
    role: str
    memo_key: str
    parent: int = -1
    capability: str = ""
    timeout: float = 0.0
    budget: Budget = NO_LIMIT
    completed: bool = True
    publish: bool = True
    items: tuple[Item, ...] = ()
    payload: Payload = field(default=None, compare=False)
    result: Payload = field(default=None, compare=False)


@value
class Submit:
    """Create the run; `owner` drives it under `epoch`. The tasks of the `reused` answers are not executed, and the
    tasks of `answered` questions ask them no more. With a `plan`, the run begins with it. Tasks that are executed find
    the `delegated` ones. The run has the `breakpoints`, which `identity` has set."""

    submission: Submission
    owner: str
    epoch: int
    reused: tuple[ReusedAnswer, ...] = ()
    plan: ReusedPlan | None = None
    answered: tuple[ReusedInput, ...] = ()
    origin: ClockOrigin = NO_ORIGIN
    delegated: tuple[ReusedDelegation, ...] = ()
    breakpoints: tuple[Breakpoint, ...] = ()
    identity: str = ""


@value
class Claim:
    """Continue the run under a new epoch; `owner` has claimed it."""

    owner: str
    epoch: int
    origin: ClockOrigin = NO_ORIGIN


@value
class SlotFound:
    """A slot of an instance is reserved for a task. `conversation_version` is the version of the role's conversation in
    the session, None if the role is stateless. `placement`, `expected_seconds` and `ignores_breakpoints` as in
    Dispatched."""

    task_id: str
    instance_id: str
    conversation_version: int | None = None
    placement: InstanceChoice | None = None
    expected_seconds: float = 0.0
    ignores_breakpoints: bool = False


@value
class InputMissing:
    """The input of a step cannot be made of the results that it depends on."""

    task_id: str
    attempt: int
    failure: Failure


@value
class DecisionIn:
    """The rule of a step has been applied to the results that the step depends on. `payload` is the result that it has
    chosen, of the step `winner`; of a rule that leaves it undecided, the votes. `reason` is a clause that says why it
    is undecided."""

    task_id: str
    is_decided: bool
    reason: str = ""
    payload: Payload = field(default=None, compare=False)
    winner: str = ""


@value
class ResultIn:
    """An agent sent the result of an attempt. `records` is the number of call records that came with it."""

    task_id: str
    attempt: int
    state: TaskState
    payload: Payload = field(compare=False)
    failure: Failure | None = None
    publish: bool = True
    records: int = 0
    spent: Amount = NOTHING
    input_id: str = ""
    """The agent's id of its question, if the result asks a person."""
    checkpointed: bool = False
    has_turn: bool = False
    """True if the result adds a turn to the role's conversation."""
    read_version: int = 0
    """The version of the conversation that the agent reports as its base; 0 if it reports none."""
    turn_too_large: bool = False
    """True if the turn is larger than a stored turn may be."""
    version_conflict: bool = False
    """True if the journal refused the turn: another one was stored first."""
    items: tuple[Item, ...] = ()
    """The items that the task publishes right after its answer."""
    confidence: float = 1.0
    """In the result, from 0 to 1, of a step of a plan."""


@value
class PlanIn(ResultIn):
    """The result of the planner's task: with the plan in its text, or, if there is no plan, with the faults of the
    text, each a pair of the step (empty: the whole) and a description. `changes` are the repairs that the planner
    reports. A planner that was asked whether the plan still leads to the goal gives no plan if it does, and the
    `reason` with another plan."""

    plan: Plan | None = None
    faults: tuple[tuple[str, str], ...] = ()
    changes: tuple[str, ...] = ()
    reason: str = ""


@value
class QuestionIn(ResultIn):
    """A result that asks a person under terms of its own."""

    kind: QuestionKind = QuestionKind.UNSPECIFIED
    terms: QuestionTerms = NO_TERMS


@value
class CheckpointIn:
    """An attempt sent a checkpoint for the next attempt. `sequence` is the frame's sequence number in the attempt."""

    task_id: str
    attempt: int
    sequence: int
    records: int = 0
    payload: Payload = field(default=None, compare=False)


@value
class PublishIn:
    """An attempt publishes an item before its result. `sequence` is the frame's sequence number in the attempt."""

    task_id: str
    attempt: int
    sequence: int
    item: Item
    records: int = 0


@value
class SendIn:
    """An attempt sends a message to other tasks of the run. `sequence` is the frame's sequence number in the attempt,
    `ttl` in seconds (0: none), `size` in bytes; `type` as in SentMessage. With `expects_reply` it needs a receiver that
    reads messages now. `forbidden` says why the roles' profiles do not allow it; empty if they do."""

    task_id: str
    attempt: int
    sequence: int
    message_id: str
    receiver: str
    type: str
    correlation_id: str = ""
    ttl: float = 0.0
    size: int = 0
    forbidden: str = ""
    expects_reply: bool = False
    records: int = 0
    payload: Payload = field(default=None, compare=False)


@value
class SubscribeIn:
    """An attempt subscribes to the messages for its task, its step and its role, and to topics."""

    task_id: str
    attempt: int
    sequence: int
    topics: tuple[str, ...] = ()


@value
class AskIn:
    """An attempt asks a person and continues. `input_id` is the agent's id of the question, `sequence` the frame's
    sequence number in the attempt."""

    task_id: str
    attempt: int
    sequence: int
    input_id: str
    payload: Payload = field(default=None, compare=False)
    records: int = 0
    kind: QuestionKind = QuestionKind.UNSPECIFIED
    terms: QuestionTerms = NO_TERMS


@value
class DelegateIn:
    """An attempt delegates to `role`, or to a role that offers `capability`.

    For a capability, `role` is the first role that offers it (empty: none) and `others` are the further ones.
    `available` is false if the role has no instance now. `digest` identifies target and input, `timeout` is in seconds,
    `sequence` is the frame's sequence number in the attempt.
    """

    task_id: str
    attempt: int
    delegation_id: str
    sequence: int
    role: str
    available: bool
    digest: str
    payload: Payload = field(default=None, compare=False)
    capability: str = ""
    memo_key: str = ""
    timeout: float = 60.0
    budget: Budget = NO_LIMIT
    checkpointed: bool = False
    records: int = 0
    others: tuple[str, ...] = ()


@value
class CancelDelegationIn:
    """An attempt no longer needs the answer to a delegation."""

    task_id: str
    attempt: int
    delegation_id: str
    sequence: int


@value
class BudgetRequestIn:
    """An attempt asks to reserve more of the budget."""

    task_id: str
    attempt: int
    request_id: str
    sequence: int
    wanted: Amount


@value
class UsageIn:
    """An attempt reports its spending so far."""

    task_id: str
    attempt: int
    spent: Amount


@value
class RejectIn:
    """An instance rejected an attempt. `delay` is the pause in seconds that it asks for before the next one."""

    task_id: str
    attempt: int
    failure: Failure
    delay: float = 0.0


@value
class LostIn:
    """The instance of an attempt is gone, or no longer holds the attempt. `on_purpose`: an operator has stopped the
    instance, or the whole mesh."""

    task_id: str
    attempt: int
    failure: Failure
    on_purpose: bool = False


@value
class WorkingIn:
    """An instance reports a running attempt that this process did not assign.

    The input changes nothing; if the attempt no longer counts, the driver orders it to stop.
    """

    task_id: str
    attempt: int


@value
class RecordsIn:
    """An attempt sent call records ahead of the frame that they precede. `sequence` is the number of the last frame
    with one of them."""

    task_id: str
    attempt: int
    count: int
    sequence: int = 0


@value
class PublishedIn:
    """The shared memory has stored an answer of this run."""

    task_id: str
    seq: int
    version: int


@value
class Cancel:
    """End the run as cancelled, on behalf of `identity`: its live attempts are ordered to stop. `reason` is a clause
    for people, by default "cancelled on request"."""

    identity: str
    reason: str


@value
class Respond:
    """Answer a question to a person. `digest` identifies the answer, `payload` carries it. With the decision MODIFY,
    `result` is the result that replaces the one that waits, `plan` the plan that does."""

    input_id: str
    identity: str
    request_id: str
    digest: str
    payload: Payload = field(default=None, compare=False)
    decision: Decision = Decision.UNSPECIFIED
    plan: Plan | None = None
    result: Payload = field(default=None, compare=False)
    is_answer: bool = False
    """True if a modification at a breakpoint before a task is its answer, in place of an execution."""


@value
class Pause:
    """Pause the run: dispatch no more tasks."""

    identity: str


@value
class Resume:
    """Resume a paused run."""

    identity: str


@value
class SetBreakpoints:
    """Replace the breakpoints of the run."""

    identity: str
    breakpoints: tuple[Breakpoint, ...]


@value
class EditPlan:
    """Replace the part of the plan that has not begun, if event `expected_seq` changed the plan last. `edit_id` is
    unique."""

    identity: str
    edit_id: str
    expected_seq: int
    plan: Plan


@value
class JournalFull:
    """The journal of the run has `size` bytes, more than the `limit`."""

    size: int
    limit: int


@value
class Tick:
    """Check deadlines: time has passed."""


Command = Cancel | Respond | Pause | Resume | EditPlan | SetBreakpoints
"""The inputs that callers send."""

Input = (
    Submit
    | Claim
    | SlotFound
    | InputMissing
    | DecisionIn
    | ResultIn
    | QuestionIn
    | PlanIn
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
    | PublishIn
    | SendIn
    | SubscribeIn
    | AskIn
    | Cancel
    | Respond
    | Pause
    | Resume
    | EditPlan
    | SetBreakpoints
    | Tick
    | JournalFull
)
