"""One task of a run, and the delegations of its current attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon_mesh.core.people import Breakpoint
from archon_mesh.core.value import value
from archon_mesh.engine.events import ApprovalRequested
from archon_mesh.engine.question import OpenQuestion
from archon_mesh.engine.types import (
    NO_LIMIT,
    NOTHING,
    Amount,
    Budget,
    ContextRef,
    Failure,
    Item,
    Payload,
    TaskState,
    quantize,
)


@dataclass(slots=True)
class Delegation:
    """A delegation of a task's current attempt. `child` is empty if the delegation was refused with `failure`."""

    child: str
    memo_key: str
    memoized: bool = False
    failure: Failure | None = None
    cancelled: bool = False


@value
class PublishedItem:
    """The newest item that a task has published under its policy, with the event `seq`, `time` in wall seconds. It has
    a `version` above 0 once the shared memory has stored it."""

    item: Item
    seq: int
    time: float
    version: int = 0


@dataclass(slots=True)
class Task:
    """The work of one role in a run. `attempt` counts dispatches, `losses` the attempts whose instance was lost.

    `predecessors` are the tasks whose results it needs, `missing` is how many more of them must come; `successors` are
    the tasks that wait for this one. `step_id` is the step of a plan that it executes, empty if none.

    `timeout` is its time in seconds and `deadline` its end in wall seconds (0: the end of the run), from the delegation
    or, for a step of a plan, from when it may start. A task with a `parent` was delegated by it: `payload_in` is its
    input. `children` maps memo keys to the tasks that this one delegated.
    `delegations`, `requests`, `answers` and `applied` (the sequence number of the agent's last frame that is journaled)
    belong to the current attempt; `children` belong to the task.
    """

    task_id: str
    role: str
    predecessors: tuple[str, ...] = ()
    parent: str = ""
    step_id: str = ""
    align: bool = False
    """True if the planner is asked by it whether the plan in force still leads to the goal."""
    missing: int = 0
    delay: float = 0.0
    """Seconds after which it starts, once none is missing."""
    successors: list[str] = field(default_factory=list)
    capability: str = ""
    payload_in: Payload = field(default=None, compare=False)
    timeout: float = 0.0
    deadline: float = 0.0
    budget: Budget = NO_LIMIT
    state: TaskState = TaskState.SUBMITTED
    attempt: int = 0
    live: bool = False
    stopping: bool = False
    instance_id: str = ""
    dispatch_epoch: int = 0
    abandoned: tuple[tuple[int, str], ...] = ()
    """Attempts that no longer count but may still be running, with their instances."""
    faults: tuple[str, ...] = ()
    """The faults of the plan that an earlier attempt replied."""
    conversation_version: int | None = None
    """The version of the role's conversation that the attempt received; None if it received none."""
    version_conflicts: int = 0
    """How many attempts were dropped because another turn of the conversation had been stored first."""
    context: tuple[ContextRef, ...] = ()
    losses: int = 0
    rejects: int = 0
    returns: int = 0
    """How many attempts were rejected or given back by an instance that was stopping on purpose."""
    failures: tuple[Payload, ...] = field(default=(), compare=False)
    """The results of attempts that do not count, in order: retried ones, ones that a person replaced or did not decide
    about, and discarded ones."""
    discarded: tuple[int, ...] = ()
    """The attempts whose discarded results are among them."""
    retries: int = 0
    avoid: str = ""
    """The instance whose attempt failed last, if the failure advises another one; empty if it does not."""
    failed_instance: str = ""
    """The instance whose attempt failed last and was, or will be, followed by another; empty if there was none."""
    not_before: float = 0.0
    dormant: bool = False
    """True if it was delegated in the run that this one was forked from, and no attempt has requested it yet."""
    unneeded: bool = False
    """True if it was cancelled because no step needs its result any more."""
    undecided: bool = False
    """True if the rule of its decision has left it to its role."""
    winner: str = ""
    """The step whose result the rule of its decision has chosen; empty if none has."""
    children: dict[str, str] = field(default_factory=dict)
    delegations: dict[str, Delegation] = field(default_factory=dict)
    requests: dict[str, Amount | Failure | None] = field(default_factory=dict)
    """The amount reserved on each request; the failure if too little was left (None in earlier journals)."""
    answers: dict[str, Payload] = field(default_factory=dict, compare=False)
    """The answers of people to questions that the current attempt asked while it continued, by the questions' ids."""
    topics: tuple[str, ...] | None = None
    """The topics that the current attempt has subscribed to; None if it receives no messages."""
    subscribed_seq: int = 0
    """The event with its first subscription; 0 if it has none."""
    replies: dict[int, tuple[str, Failure | None]] = field(default_factory=dict)
    """The ids of the messages that the current attempt has sent, by its events, and why they were refused."""
    sent: dict[str, int] = field(default_factory=dict)
    """The events with the messages of all attempts, by the messages' ids; 0 for a message without a receiver."""
    applied: int = 0
    checkpoint: Payload = field(default=None, compare=False)
    """The payload that carried the last checkpoint."""
    question: str = ""
    """The id of the open question to a person; empty if there is none."""
    asking: OpenQuestion | None = None
    """The open question; None if there is none."""
    held: ApprovalRequested | None = None
    """The result that waits for a person's approval, or the hold of a breakpoint; None if there is none."""
    was_held: bool = False
    """True if a breakpoint has held the task before a dispatch: none does so again."""
    edited: Payload = field(default=None, compare=False)
    """The answer to a breakpoint that replaces the input of the task; None if there is none."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """The run's breakpoints as of the dispatch of the current attempt."""
    ignores_breakpoints: bool = False
    """True if the current attempt cannot hold at breakpoints of calls."""
    questions: tuple[Payload, ...] = field(default=(), compare=False)
    """All questions to people, in order; None for one that a rule asked."""
    inputs: tuple[Payload, ...] = field(default=(), compare=False)
    """All answers of people, in order."""
    reserved: Amount = NOTHING
    spent: Amount = NOTHING
    result_seq: int = 0
    payload: Payload = field(default=None, compare=False)
    failure: Failure | None = None
    items: tuple[PublishedItem, ...] = ()
    """The newest item of each policy, oldest first."""
    memory_version: int = 0
    start_time: float = 0.0
    end_time: float = 0.0

    @property
    def label(self) -> str:
        """The task's name for people: its role, and its step if it has one."""
        return f"{self.role} ({self.step_id})" if self.step_id else self.role

    @property
    def ended(self) -> bool:
        """True if the task is in a final state."""
        return self.state.final

    @property
    def is_open(self) -> bool:
        """True if a plan waits for the end of its step: it has neither ended nor been stopped for want of a need."""
        return not (self.state.final or self.unneeded)

    @property
    def answered(self) -> bool:
        """True if the parent can receive an answer: the task has ended, or its attempt was ordered to stop."""
        return self.stopping or self.state.final

    def newest(self, policy: int) -> int:
        """The event with the newest answer or item that an edge of this policy lets through; 0 if there is none."""
        seq = self.result_seq if self.state is TaskState.COMPLETED else 0
        for published in self.items:
            if published.item.policy <= policy and published.seq > seq:
                seq = published.seq
        return seq

    def wait_for_less(self, time: float) -> None:
        """Counts the end of a predecessor, at `time` (wall seconds)."""
        if self.missing:
            self.missing -= 1
            if not self.missing:
                self.may_start(time)

    def may_start(self, time: float) -> None:
        """Sets the times of a step for which all that it needs is there since `time` (wall seconds)."""
        if self.delay:
            self.not_before = quantize(time + self.delay)
        if self.timeout:
            self.deadline = quantize(time + self.delay + self.timeout)

    def start_after(self, seconds: float, time: float) -> None:
        """Sets the times of a step that waits for one beside it, which was dispatched at `time` (wall seconds), unless
        it waits no more or the results that it needs are not there yet."""
        if self.attempt or self.missing or self.not_before <= time:
            return
        self.not_before = quantize(time + seconds)
        if self.timeout:
            self.deadline = quantize(time + seconds + self.timeout)

    def abandon(self) -> None:
        """Marks the current attempt as abandoned: its outcome no longer counts."""
        self.live, self.abandoned = False, (*self.abandoned, (self.attempt, self.instance_id))

    def wait_again(self) -> None:
        """Has the task wait for its next attempt, or for the answer of a person before it."""
        self.live, self.state = False, TaskState.INPUT_REQUIRED if self.question else TaskState.SUBMITTED

    def begin_attempt(self) -> None:
        """Drops the delegations and requests of the previous attempt; the children stay."""
        self.applied = 0
        self.topics, self.subscribed_seq = None, 0
        if self.replies:
            self.replies = {}
        if self.delegations or self.requests or self.answers:
            self.delegations, self.requests, self.answers = {}, {}, {}
