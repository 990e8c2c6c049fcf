"""Value types that events, inputs and state share."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from archon.failure_kinds import advice, entry_of
from archon_mesh.core.people import InterceptionRule
from archon_mesh.core.value import value
from archon_mesh.engine.plan import DEFAULT_POLICY, ReplanPolicy

Payload = object
"""Content that the core passes through without reading it; only the adapters at the edge know its type."""

FINAL_RESPONSE_ONLY = 1
"""The number of the narrowest PropagationPolicy; a wider one has a higher number."""


def quantize(seconds: float) -> float:
    """Rounds to whole microseconds, the precision of the journal, so that a folded state equals the decided one."""
    whole = int(seconds)
    return (whole * 1_000_000 + round((seconds - whole) * 1e6)) / 1e6  # one division: the float that a reader computes


class TaskState(IntEnum):
    """The states of A2A's TaskState, with its numbers."""

    UNSPECIFIED = 0
    SUBMITTED = 1
    WORKING = 2
    COMPLETED = 3
    FAILED = 4
    CANCELED = 5
    INPUT_REQUIRED = 6
    REJECTED = 7
    AUTH_REQUIRED = 8

    final: bool
    """True if no other state can follow."""

    def __init__(self, number: int) -> None:
        self.final = number in (3, 4, 5, 7)  # an attribute: it is read fifty times per run


@value
class Failure:
    """Why something failed: the fields of the contract's Failure.

    `code` is the name of a gRPC status code, `reason` machine-readable, `message` for people, `retry_delay` in seconds
    (None if there is no advice). `kind` names a kind in `archon.failure_kinds`; kind, class, severity and retry that
    are not given follow from the reason. `violations` are pairs of field and description.
    """

    code: str
    reason: str
    message: str
    metadata: tuple[tuple[str, str], ...] = ()
    retry_delay: float | None = None
    kind: str = ""
    failure_class: int = 0
    severity: int = 0
    retry: int = 0
    violations: tuple[tuple[str, str], ...] = ()
    causes: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        kind = entry_of(self.kind, self.code, self.reason)
        retry = advice(kind, self.retry_delay)
        defaults = (
            ("kind", kind.name),
            ("failure_class", kind.failure_class),
            ("severity", kind.severity),
            ("retry", retry),
        )
        for name, default in defaults:
            if not getattr(self, name):
                object.__setattr__(self, name, default if isinstance(default, str) else int(default))


@value
class ClockOrigin:
    """Where the clock of a run's owner began: the id of the machine's boot (empty: unknown), and when the machine's
    monotonic clock was 0 by the run's clock, in wall seconds. Another process of the same boot can continue the run's
    clock by it."""

    boot_id: str = ""
    time: float = 0.0


NO_ORIGIN = ClockOrigin()


@value
class Edge:
    """`downstream` receives the final answers of `upstream`. `policy` is the number of a PropagationPolicy."""

    upstream: str
    downstream: str
    policy: int = 1


@value
class Item:
    """An item that a task publishes for edges whose policy is `policy`, a number as in Edge, or wider."""

    policy: int
    payload: Payload = field(compare=False)


@value
class Requirement:
    """The instances that can take a task: all of the role with the capability (empty: any) and the version (empty: any;
    a version that ends in `.*` matches by prefix)."""

    role: str
    capability: str = ""
    version: str = ""


@value
class ComparedInstance:
    """An instance that was compared for a dispatch, as it was at that time: the used part of its slots (`load`, from 0
    to 1), the `factor` by which its record makes that count less or more, and the record: attempts (older ones count
    less), part of them that completed, mean and 95 % time in seconds, mean cost in millionths of a US dollar."""

    instance_id: str
    load: float
    factor: float = 1.0
    tasks: float = 0.0
    success_rate: float = 0.0
    mean_seconds: float = 0.0
    p95_seconds: float = 0.0
    mean_cost: float = 0.0


@value
class InstanceChoice:
    """Why a task was dispatched to its instance: `reason` as in the contract's Placement, of so many `compared`
    instances. `candidates` are the best of them if a record made the difference."""

    reason: str
    compared: int
    candidates: tuple[ComparedInstance, ...] = ()


@value
class ContextRef:
    """One upstream answer that a dispatch passes on: the event `seq` of this run; or, if `seq` is 0, the version in the
    shared memory's `scope` that was recorded when the run was submitted."""

    role: str
    seq: int
    version: int = 0
    scope: str = ""


@value
class SessionContextRef:
    """An answer from the session's scope that is older than the run; `readers` are the roles that receive it."""

    role: str
    version: int
    readers: tuple[str, ...]


@value
class Target:
    """A role that tasks can be delegated to. A coordinator receives the list of the other targets."""

    role: str
    description: str = ""
    coordinator: bool = False


@value
class PlanTarget(Target):
    """A role that the steps of a plan may go to, with the ids of its capabilities, the names of its tools, and the time
    and cost of a task: seconds, and millionths of a US dollar; 0 if unknown."""

    capabilities: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    seconds: float = 0.0
    cost_micro_usd: int = 0


@value
class Amount:
    """An amount of budget: tokens, cost in millionths of a US dollar, and calls of models."""

    tokens: int = 0
    cost: int = 0
    calls: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost, self.calls + other.calls)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.tokens - other.tokens, self.cost - other.cost, self.calls - other.calls)


@value
class Budget:
    """The limits of tokens, cost, delegation depth and calls of models. 0 means no limit (for depth: the default)."""

    tokens: int = 0
    cost: int = 0
    depth: int = 0
    calls: int = 0

    @property
    def limited(self) -> bool:
        """True if it limits anything."""
        return bool(self.tokens or self.cost or self.depth or self.calls)


NOTHING = Amount()
NO_LIMIT = Budget()

DRAINING = "DRAINING"
"""The failure reason of an attempt that its instance rejects, or gives back, because it stops on purpose."""

BREAKPOINT_NOT_HELD = "BREAKPOINT_NOT_HELD"
CONVERSATION_MOVED = "CONVERSATION_MOVED"
"""The failure reason of an attempt whose turn of a conversation conflicts with one that was stored first."""

PLAN_FAILED = "PLAN_FAILED"
RESULT_REFUSED = "RESULT_REFUSED"
"""The failure reason of a run whose plan cannot be completed, and of a reply of its planner that is no plan."""

NOT_NEEDED = "NOT_NEEDED"
"""The failure reason of a step that is cancelled because no other step needs its result any more."""

UNDECIDED = "UNDECIDED"
"""The failure reason of a decision that its rule does not make."""

DECISION = "decision"
"""The role, as it is shown, of a task whose step is decided by a rule alone."""

APPROVAL_REJECTED = "APPROVAL_REJECTED"
"""The failure reason of a run in which a person rejected an approval that a rule asked for."""

QUESTION_TIMED_OUT = "QUESTION_TIMED_OUT"
"""The failure reason of a run with a question that was not answered in time, and whose policy is `abort`."""

PLAN = "plan"
"""The strategy of a run whose planner makes a plan."""


@value
class PlanRules:
    """How the plans of a run are handled. `policy` says when a plan is made anew, `max_attempts` how many attempts a
    step has. With `are_checked` a plan is executed as it comes: without faults, each step with its role. A failure
    after which no further attempt is made counts as `permanent_failures` failed attempts."""

    policy: ReplanPolicy = DEFAULT_POLICY
    max_attempts: int = 3
    are_checked: bool = False
    permanent_failures: int = 1
    has_planner: bool = True
    """False: the plan in force is the only one, and the run fails if it cannot be completed."""


PLAN_RULES = PlanRules()
"""The rules of every run of the mesh."""


WITHOUT_PLANNER = PlanRules(
    ReplanPolicy(failures_of_subtask=1_000_000, consecutive_failures=1_000_000, max_replans=0), has_planner=False
)
"""The rules of a run of the mesh whose plan came with its submission: only the failure of a critical step ends it."""

GIVEN_PLAN = "plan"
"""The role, as it is shown, of the first task of a run whose plan came with its submission."""


@value
class Submission:
    """A run as it was submitted, with the edges of the graph at that time. `timeout` is in seconds."""

    run_id: str
    tenant: str
    request_id: str
    session_id: str
    strategy: str
    roles: tuple[str, ...]
    edges: tuple[Edge, ...]
    timeout: float
    goal: Payload = field(compare=False)
    requirements: tuple[Requirement, ...] = ()
    """For the roles whose instances need a capability or a version."""
    all_ancestors: tuple[str, ...] = ()
    """The roles that receive the answers of all their ancestors."""
    targets: tuple[Target, ...] = ()
    """The roles that can be delegated to, in topological order; empty if no role of the run is a coordinator. With
    strategy `plan` the roles that steps may go to, each a PlanTarget; `roles` is the planner alone."""
    budget: Budget = NO_LIMIT
    session_context: tuple[SessionContextRef, ...] = ()
    """Earlier answers of the session at the time of the submission, each role's upstream in dependency order."""
    pause_timeout: float = 0.0
    """Seconds that the run may be paused, or wait for a person, at a stretch; 0: no limit."""
    parent_run_id: str = ""
    """The run that this one was forked from; empty if it was not forked."""
    rules: tuple[InterceptionRule, ...] = ()
    """The rules by which people are asked, as of the submission."""
    check_alignment: bool = False
    """True if the planner is asked, while its plan is executed, whether the plan still leads to the goal."""
    plan_rules: PlanRules | None = None
    """How the run's plans are handled; None: as PLAN_RULES says."""

    def requirement(self, role: str) -> Requirement:
        """Which instances can take the role's task."""
        for entry in self.requirements:
            if entry.role == role:
                return entry
        return Requirement(role)

    @property
    def scope(self) -> str:
        """The scope in the shared memory: the session if the run has one, else the run."""
        return self.session_id or self.run_id
