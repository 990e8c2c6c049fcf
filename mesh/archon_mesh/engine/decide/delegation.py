"""Decides about delegations: whether one is allowed, which task it becomes, which answer is memoized (rule C8)."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.budget import MAX_DEPTH, first_slice
from archon_mesh.engine.decide.termination import stop
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Budget, Failure, quantize

MAX_DELEGATIONS = 1_000
"""The most children of one task."""

MAX_TIMEOUT = 24 * 3600.0
"""The longest timeout of a delegation, in seconds: the same as a run's."""


def delegate(run: RunState, task: Task, request: inp.DelegateIn) -> list[ev.Event]:
    """The events of a delegation by the task's current attempt; none if the same frame came before."""
    if request.delegation_id in task.delegations:
        return []
    key = request.memo_key or _memo_key(task, request.digest)
    memoized = task.children.get(key, "")
    role = run.tasks[memoized].role if memoized else _role(run, task, request)
    failure = None if memoized else _refusal(run, task, request, role)
    child = memoized or ("" if failure else f"{_run_id(run)}.{len(run.tasks) + 1}")
    delegated = ev.Delegated(
        task.task_id,
        task.attempt,
        request.delegation_id,
        child,
        role,
        key,
        request.sequence,
        request.capability,
        quantize(min(request.timeout, MAX_TIMEOUT)),
        request.budget,
        request.checkpointed,
        request.payload,
        failure,
    )
    return [delegated] if memoized or failure else [delegated, ev.TaskCreated(child, role, task.task_id)]


def cancel_delegation(run: RunState, task: Task, request: inp.CancelDelegationIn) -> list[ev.Event]:
    """Cancels a delegation. Its task stops, unless another open delegation of the attempt waits for the same task."""
    delegation = task.delegations.get(request.delegation_id)
    if delegation is None or delegation.cancelled:
        return []
    cancelled = ev.DelegationCancelled(task.task_id, task.attempt, request.delegation_id, request.sequence)
    shared = any(
        other is not delegation and other.child == delegation.child and not other.cancelled
        for other in task.delegations.values()
    )
    if not delegation.child or shared:
        return [cancelled]
    failure = Failure("CANCELLED", "CANCELLED", "the delegating task no longer needs the answer")
    return [cancelled, *stop(run, run.tasks[delegation.child], failure)]


def _run_id(run: RunState) -> str:
    assert run.submission is not None
    return run.submission.run_id


def _memo_key(task: Task, digest: str) -> str:
    """The default memo key: the n-th delegation with the same digest in one attempt matches the n-th in another."""
    earlier = sum(delegation.memo_key.startswith(digest + ".") for delegation in task.delegations.values())
    return f"{digest}.{earlier + 1}"


def _role(run: RunState, task: Task, request: inp.DelegateIn) -> str:
    """Of the roles that offer the capability, the first that is not waiting for this task."""
    if not request.others:
        return request.role
    waiting = {ancestor.role for ancestor in run.lineage(task)}
    return next((role for role in (request.role, *request.others) if role not in waiting), request.role)


def _refusal(run: RunState, task: Task, request: inp.DelegateIn, role: str) -> Failure | None:
    """Why the delegation is refused; None if it is allowed."""
    return (
        _missing_target(request, role)
        or _negative_budget(request.budget)
        or _loop_or_depth(run, task, role)
        or _too_many(task)
        or _unknown_role(run, request, role)
        or _no_budget_left(run, task)
    )


def _missing_target(request: inp.DelegateIn, role: str) -> Failure | None:
    if role:
        return None
    if not request.capability:
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "a delegation needs a role or a capability")
    return Failure(
        "NOT_FOUND",
        "UNKNOWN_CAPABILITY",
        f"no instance offers {request.capability!r}",
        (("capability", request.capability),),
    )


def _negative_budget(budget: Budget) -> Failure | None:
    """Names the field as the wire format does, since that is the name that the agent knows."""
    amounts = {"max_tokens": budget.tokens, "max_cost_micro_usd": budget.cost, "max_depth": budget.depth}
    amounts["max_model_calls"] = budget.calls
    for name, amount in amounts.items():
        if amount < 0:
            field = (("field", f"budget.{name}"),)
            return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", f"budget.{name} must not be negative", field)
    return None


def _loop_or_depth(run: RunState, task: Task, role: str) -> Failure | None:
    assert run.submission is not None
    lineage = run.lineage(task)
    chain = [ancestor.role for ancestor in lineage]
    if role in chain:
        path = " -> ".join([*chain, role])
        return Failure(
            "FAILED_PRECONDITION",
            "DELEGATION_LOOP",
            f"delegation loop: {role} is already waiting for this task: {path}",
            (("chain", path),),
        )
    depths = [depth + ancestor.budget.depth for depth, ancestor in enumerate(lineage) if ancestor.budget.depth]
    max_depth = min([run.submission.budget.depth or MAX_DEPTH, *depths])
    if len(chain) > max_depth:
        return Failure(
            "FAILED_PRECONDITION",
            "DELEGATION_TOO_DEEP",
            f"delegations of this run can nest at most {max_depth} deep",
            (
                ("budget", "depth"),
                ("limit", str(max_depth)),
                ("max_depth", str(max_depth)),
                ("needed", str(len(chain))),
            ),
        )
    return None


def _too_many(task: Task) -> Failure | None:
    if len(task.children) < MAX_DELEGATIONS:
        return None
    return Failure(
        "RESOURCE_EXHAUSTED", "TOO_MANY_DELEGATIONS", f"a task can make at most {MAX_DELEGATIONS} delegations"
    )


def _unknown_role(run: RunState, request: inp.DelegateIn, role: str) -> Failure | None:
    assert run.submission is not None
    if request.available or role in {*run.submission.roles, *(target.role for target in run.submission.targets)}:
        return None
    return Failure("NOT_FOUND", "UNKNOWN_ROLE", f"no instance of the role {role!r}", (("role", role),))


def _no_budget_left(run: RunState, task: Task) -> Failure | None:
    reserved = first_slice(run, task)
    return reserved if isinstance(reserved, Failure) else None
