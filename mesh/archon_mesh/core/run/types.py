"""Words that events, inputs and state share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

Payload = object
"""Content that the core carries and never reads: the border gives it a meaning."""


def quantize(seconds: float) -> float:
    """A time as the journal keeps it, in whole microseconds: so that what is folded equals what was decided."""
    whole = int(seconds)
    return whole + round((seconds - whole) * 1e6) / 1e6


class TaskState(IntEnum):
    """The states of A2A's TaskState, by its numbers."""

    UNSPECIFIED = 0
    SUBMITTED = 1
    WORKING = 2
    COMPLETED = 3
    FAILED = 4
    CANCELED = 5
    INPUT_REQUIRED = 6
    REJECTED = 7
    AUTH_REQUIRED = 8

    @property
    def final(self) -> bool:
        """True where nothing comes after it."""
        return self._value_ in _FINAL


_FINAL = frozenset(
    state.value for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something went wrong: a gRPC code's name, a reason for programs, a sentence for people."""

    code: str
    reason: str
    message: str
    metadata: tuple[tuple[str, str], ...] = ()
    retry_delay: float | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """Downstream gets upstream's final answers. `policy` is the number of a PropagationPolicy."""

    upstream: str
    downstream: str
    policy: int = 1


@dataclass(frozen=True, slots=True)
class Requirement:
    """Who may take a task: instances of the role that have the capability (empty: any) and the version (empty: any; one
    that ends in `.*` is a prefix)."""

    role: str
    capability: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ContextRef:
    """One upstream answer that a dispatch hands over: the event of this run that holds it; or, where `seq` is 0, the
    version in `scope` that the run was taken on with."""

    role: str
    seq: int
    version: int = 0
    scope: str = ""


@dataclass(frozen=True, slots=True)
class SessionContextRef:
    """An answer from before the run, in its session's scope; `readers` are the roles that are handed it."""

    role: str
    version: int
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A role that can be delegated to; a coordinator is told of the others."""

    role: str
    description: str = ""
    coordinator: bool = False


@dataclass(frozen=True, slots=True)
class Amount:
    """So much of a budget: tokens, and millionths of a US dollar."""

    tokens: int = 0
    cost: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.tokens - other.tokens, self.cost - other.cost)


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent, and how deep delegations may nest. 0: no limit of that kind (of depth: the default)."""

    tokens: int = 0
    cost: int = 0
    depth: int = 0


NOTHING = Amount()
NO_LIMIT = Budget()


@dataclass(frozen=True, slots=True)
class Submission:
    """What was asked for, as it is journaled: the graph as it stood included. Times are in seconds."""

    run_id: str
    tenant: str
    request_id: str
    session_id: str
    strategy: str
    roles: tuple[str, ...]
    edges: tuple[Edge, ...]
    timeout: float
    goal: Payload = field(compare=False)
    wants: tuple[Requirement, ...] = ()
    """Where more is wanted of a role's instances than the role."""
    all_ancestors: tuple[str, ...] = ()
    """The roles that are handed the answers of all their ancestors."""
    targets: tuple[Target, ...] = ()
    """The roles that can be delegated to, in topological order; empty where nobody who takes part coordinates."""
    budget: Budget = NO_LIMIT
    outside: tuple[SessionContextRef, ...] = ()
    """What the session knew as the run was taken on, each role's upstream in dependency order."""

    def want(self, role: str) -> Requirement:
        """Who may take the role's task."""
        return next((want for want in self.wants if want.role == role), Requirement(role))

    @property
    def scope(self) -> str:
        """The memory scope: the session where one is named, else the run."""
        return self.session_id or self.run_id
