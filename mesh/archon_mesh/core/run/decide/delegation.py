"""What a delegation means: whether it is allowed, which task it becomes, what is remembered (rule C8)."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.budget import MAX_DEPTH, exhausted, first_slice
from archon_mesh.core.run.decide.termination import stop
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Budget, Failure, quantize

MAX_DELEGATIONS = 1_000
"""So many children a task may have."""

MAX_TIMEOUT = 24 * 3600.0
"""Seconds; no run takes longer."""


def delegate(run: RunState, task: Task, given: inp.DelegateIn) -> list[ev.Event]:
    """The events of a delegation by the task's current attempt."""
    if given.delegation_id in task.delegations:
        return []  # sent again
    key = given.memo_key or _key(task, given.digest)
    known = task.children.get(key, "")
    role = run.tasks[known].role if known else _role(run, task, given)
    failure = None if known else _refusal(run, task, given, role)
    child = known or ("" if failure else f"{_run_id(run)}.{len(run.tasks) + 1}")
    delegated = ev.Delegated(
        task.task_id,
        task.attempt,
        given.delegation_id,
        child,
        role,
        key,
        given.sequence,
        given.capability,
        quantize(min(given.timeout, MAX_TIMEOUT)),
        given.budget,
        given.checkpointed,
        given.payload,
        failure,
    )
    return [delegated] if known or failure else [delegated, ev.TaskCreated(child, role, task.task_id)]


def cancel_delegation(run: RunState, task: Task, given: inp.CancelDelegationIn) -> list[ev.Event]:
    """The events of an answer that is needed no more: its task stops, unless it is awaited under another name too."""
    known = task.delegations.get(given.delegation_id)
    if known is None or known.cancelled:
        return []
    cancelled = ev.DelegationCancelled(task.task_id, task.attempt, given.delegation_id, given.sequence)
    awaited = any(
        other is not known and other.child == known.child and not other.cancelled for other in task.delegations.values()
    )
    if not known.child or awaited:
        return [cancelled]
    failure = Failure("CANCELLED", "CANCELLED", "whoever delegated it needs it no more")
    return [cancelled, *stop(run, run.tasks[known.child], failure)]


def expired(run: RunState, now: float) -> list[ev.Event]:
    """Stops the delegated tasks whose time is over."""
    events: list[ev.Event] = []
    stopped: set[str] = set()
    for task in run.tasks.values():
        if not task.deadline or now < task.deadline or task.answered or task.task_id in stopped:
            continue
        failure = Failure(
            "DEADLINE_EXCEEDED",
            "DELEGATION_TIMEOUT",
            f"{task.role} did not answer within {task.timeout:g} s",
            (("role", task.role),),
        )
        events += stop(run, task, failure, stopped)
    return events


def _run_id(run: RunState) -> str:
    assert run.submission is not None
    return run.submission.run_id


def _key(task: Task, digest: str) -> str:
    """The same thing asked for the n-th time in an attempt is the same delegation in every attempt."""
    before = sum(one.memo_key.startswith(digest + ".") for one in task.delegations.values())
    return f"{digest}.{before + 1}"


def _role(run: RunState, task: Task, given: inp.DelegateIn) -> str:
    """Of those who have a capability the first that doesn't wait for this very task."""
    if not given.others:
        return given.role
    waiting = {above.role for above in run.lineage(task)}
    return next((role for role in (given.role, *given.others) if role not in waiting), given.role)


def _negative(budget: Budget) -> Failure | None:
    """Names the part by the contract's name for it: the agent knows no other."""
    parts = {"max_tokens": budget.tokens, "max_cost_micro_usd": budget.cost, "max_depth": budget.depth}
    for name, value in parts.items():
        if value < 0:
            field = (("field", f"budget.{name}"),)
            return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", f"budget.{name} must not be negative", field)
    return None


def _refusal(run: RunState, task: Task, given: inp.DelegateIn, role: str) -> Failure | None:
    assert run.submission is not None
    if not role and not given.capability:
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "a delegation names a role or a capability")
    if not role:
        return Failure(
            "NOT_FOUND",
            "UNKNOWN_CAPABILITY",
            f"no instance offers {given.capability!r}",
            (("capability", given.capability),),
        )
    if (negative := _negative(given.budget)) is not None:
        return negative
    lineage = run.lineage(task)
    chain = [above.role for above in lineage]
    if role in chain:
        way = " -> ".join([*chain, role])
        return Failure(
            "FAILED_PRECONDITION", "DELEGATION_LOOP", f"{role} waits for this very task: {way}", (("chain", way),)
        )
    depths = [depth + one.budget.depth for depth, one in enumerate(lineage) if one.budget.depth]
    deepest = min([run.submission.budget.depth or MAX_DEPTH, *depths])
    if len(chain) > deepest:
        return Failure(
            "FAILED_PRECONDITION",
            "DELEGATION_TOO_DEEP",
            f"delegations of this run nest at most {deepest} deep",
            (("max_depth", str(deepest)),),
        )
    if len(task.children) >= MAX_DELEGATIONS:
        return Failure(
            "RESOURCE_EXHAUSTED", "TOO_MANY_DELEGATIONS", f"a task may make {MAX_DELEGATIONS} delegations at most"
        )
    if not given.known and role not in {*run.submission.roles, *(target.role for target in run.submission.targets)}:
        return Failure("NOT_FOUND", "UNKNOWN_ROLE", f"no instance plays the role {role!r}", (("role", role),))
    if isinstance(first_slice(run, task), Failure):
        return exhausted(task)
    return None
