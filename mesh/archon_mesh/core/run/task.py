"""One task of a run, and what it has handed on."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon_mesh.core.run.types import NO_LIMIT, NOTHING, Amount, Budget, ContextRef, Failure, Payload, TaskState


@dataclass(slots=True)
class Delegation:
    """What the current attempt of a task has delegated. `child` is empty where it was refused, for `failure`."""

    child: str
    memo_key: str
    memoized: bool = False
    failure: Failure | None = None
    cancelled: bool = False


@dataclass(slots=True)
class Task:
    """One role's part. `attempt` counts dispatches, `losses` those that ended with the loss of their process.

    A task with a `parent` was delegated by it: `payload_in` is what it was asked, `timeout` (seconds) and `deadline`
    (wall seconds; 0: the run's) until when. `children` are its own, by the key under which they are remembered;
    `delegations`, `requests` and `applied` (the last frame of the agent's that is journaled) are the current attempt's.
    """

    task_id: str
    role: str
    predecessors: tuple[str, ...] = ()
    parent: str = ""
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
    strays: tuple[tuple[int, str], ...] = ()
    """Attempts that were given up and may be worked on still, with their instances."""
    conversation: int | None = None
    """The version of its role's conversation that the attempt was given; None: it was given none."""
    outdated: int = 0
    """So many attempts came to nothing because another turn of the conversation was stored first."""
    given: tuple[ContextRef, ...] = ()
    losses: int = 0
    rejects: int = 0
    failures: tuple[Payload, ...] = field(default=(), compare=False)
    """What attempts said that failed and were tried again, in order; `retries` of them."""
    retries: int = 0
    not_before: float = 0.0
    children: dict[str, str] = field(default_factory=dict)
    delegations: dict[str, Delegation] = field(default_factory=dict)
    requests: dict[str, Amount | None] = field(default_factory=dict)
    applied: int = 0
    checkpoint: Payload = field(default=None, compare=False)
    """What brought the last checkpoint."""
    question: str = ""
    """The id of what a person is asked now; empty: nothing."""
    questions: tuple[Payload, ...] = field(default=(), compare=False)
    """All that people were asked, in order."""
    inputs: tuple[Payload, ...] = field(default=(), compare=False)
    """What people have answered, in order."""
    reserved: Amount = NOTHING
    spent: Amount = NOTHING
    result_seq: int = 0
    payload: Payload = field(default=None, compare=False)
    failure: Failure | None = None
    memory_version: int = 0
    start_time: float = 0.0
    end_time: float = 0.0

    @property
    def ended(self) -> bool:
        """True where the task needs nothing more."""
        return self.state.final

    @property
    def answered(self) -> bool:
        """True where whoever delegated it can be told what came of it."""
        return self.stopping or self.state.final

    def give_up(self) -> None:
        """Nothing is expected of the attempt any more, whatever its instance does."""
        self.live, self.strays = False, (*self.strays, (self.attempt, self.instance_id))

    def new_attempt(self) -> None:
        """What an attempt has delegated and asked for is its own; the children stay the task's."""
        self.applied = 0
        if self.delegations or self.requests:
            self.delegations, self.requests = {}, {}
