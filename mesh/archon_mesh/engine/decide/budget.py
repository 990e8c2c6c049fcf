"""The budget of a run, shared by all its tasks: reserved before it is spent, settled afterwards."""

from __future__ import annotations

from collections.abc import Iterable

from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.termination import ending, stop, then_end
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import NOTHING, Amount, Budget, Failure, TaskState

SLICES = 8
"""An attempt starts with 1/SLICES of its budget, but at most half of the rest, so that any number of attempts can start
together. It requests more when it needs more."""

SMALLEST = Amount(1, 1, 1)
"""The least that an attempt needs to start."""

MAX_DEPTH = 8
"""The default limit of how deep delegations nest."""


_UNITS = {"tokens": "tokens", "cost": "millionths of a US dollar", "model_calls": "calls of models"}


def limits(run: RunState, task: Task) -> tuple[bool, bool, bool]:
    """Whether the task's tokens are limited, its cost, and its calls of models."""
    assert run.submission is not None
    if not task.parent and not run.submission.budget.limited:
        return False, False, False
    budgets = _budgets(run, task)
    return (
        any(budget.tokens for budget in budgets),
        any(budget.cost for budget in budgets),
        any(budget.calls for budget in budgets),
    )


def left(run: RunState, task: Task) -> Amount:
    """The amount that the task can still reserve within the budgets of the run, of its ancestors and its own. A kind
    without a limit reads as 0."""
    bounds = _bounds(run, task)
    tokens = min((budget.tokens - used.tokens for _, budget, used in bounds if budget.tokens), default=0)
    cost = min((budget.cost - used.cost for _, budget, used in bounds if budget.cost), default=0)
    calls = min((budget.calls - used.calls for _, budget, used in bounds if budget.calls), default=0)
    return Amount(max(0, tokens), max(0, cost), max(0, calls))


def _bounds(run: RunState, task: Task) -> list[tuple[str, Budget, Amount]]:
    """The budgets of the run (under an empty name), of the task's ancestors and its own (under their roles), with the
    amounts spent or reserved."""
    assert run.submission is not None
    bounds = [("", run.submission.budget, run.spent + _sum(other.reserved for other in run.live_tasks()))]
    for ancestor in run.lineage(task):
        family = [ancestor, *run.descendants(ancestor)]
        bounds.append((ancestor.role, ancestor.budget, _sum(member.spent + member.reserved for member in family)))
    return bounds


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NOTHING)


def first_slice(run: RunState, task: Task) -> Amount | Failure | None:
    """The amount that an attempt reserves when it starts; None if no budget applies, a Failure if nothing is left."""
    assert run.submission is not None
    if not task.parent and not run.submission.budget.limited:
        return None
    tokens, cost, calls = limits(run, task)
    if not tokens and not cost and not calls:
        return None
    free = left(run, task)
    if (tokens and not free.tokens) or (cost and not free.cost) or (calls and not free.calls):
        return exhausted(run, task)
    budgets = _budgets(run, task)
    return Amount(
        _slice(free.tokens, [budget.tokens for budget in budgets]) if tokens else 0,
        _slice(free.cost, [budget.cost for budget in budgets]) if cost else 0,
        _slice(free.calls, [budget.calls for budget in budgets]) if calls else 0,
    )


def _slice(free: int, limits: Iterable[int]) -> int:
    return max(1, min(min(limit for limit in limits if limit) // SLICES, free // 2))


def _budgets(run: RunState, task: Task) -> list[Budget]:
    """All budgets that limit a task: the run's, its ancestors' and its own."""
    assert run.submission is not None
    return [run.submission.budget, *(ancestor.budget for ancestor in run.lineage(task))]


def grant(run: RunState, task: Task, wanted: Amount) -> Amount | Failure:
    """The wanted amount, of the kinds that are limited; a Failure if too little is left."""
    tokens, cost, calls = limits(run, task)
    free = left(run, task)
    if (
        (tokens and wanted.tokens > free.tokens)
        or (cost and wanted.cost > free.cost)
        or (calls and wanted.calls > free.calls)
    ):
        return exhausted(run, task, wanted)
    return Amount(wanted.tokens if tokens else 0, wanted.cost if cost else 0, wanted.calls if calls else 0)


def usage(run: RunState, task: Task, spent: Amount) -> list[ev.Event]:
    """Ends the run if the reported usage of a live attempt exceeds its budget; stops a delegated task if it exceeds
    only that task's budget."""
    if not _overspent(run, task, spent):
        overspent_task = _overspent_task(run, task, spent)
        if overspent_task is None:
            return []
        return stop(run, overspent_task, exhausted(run, overspent_task, spent - task.reserved))
    failure = exhausted(run, task, spent - task.reserved)
    return then_end(run, [ending(failure)], set(), TaskState.FAILED, failure)


def _overspent(run: RunState, task: Task, spent: Amount) -> bool:
    """Whether the run exceeds its budget if the task's attempt has spent this amount."""
    assert run.submission is not None
    reserved = _sum(other.reserved for other in run.live_tasks() if other is not task)
    return _exceeds(run.submission.budget, run.spent + reserved + spent)


def _overspent_task(run: RunState, task: Task, spent: Amount) -> Task | None:
    """The outermost delegated task that exceeds its own budget if the task's attempt has spent this amount."""
    for ancestor in run.lineage(task):
        if not ancestor.budget.limited:
            continue
        family = [ancestor, *run.descendants(ancestor)]
        reserved = [member.reserved for member in family if member is not task]
        settled = [member.spent for member in family]
        if _exceeds(ancestor.budget, _sum([*reserved, *settled, spent])):
            return ancestor
    return None


def _exceeds(limit: Budget, total: Amount) -> bool:
    return bool(
        (limit.tokens and total.tokens > limit.tokens)
        or (limit.cost and total.cost > limit.cost)
        or (limit.calls and total.calls > limit.calls)
    )


def exhausted(run: RunState, task: Task, needed: Amount = SMALLEST) -> Failure:
    """The failure of a task whose budget does not cover `needed`. It names the first budget that is too small:
    `budget` (tokens, cost or model_calls), `scope` (the run, or the role that the budget was given to), `limit`,
    `spent` (reservations included) and `needed`; cost in millionths of a US dollar."""
    for scope, budget, used in _bounds(run, task):
        for kind, limit, spent, wanted in (
            ("tokens", budget.tokens, used.tokens, needed.tokens),
            ("cost", budget.cost, used.cost, needed.cost),
            ("model_calls", budget.calls, used.calls, needed.calls),
        ):
            if limit and wanted > max(0, limit - spent):
                return _too_small(task, kind, scope, limit, spent, wanted)
    message = f"insufficient budget: nothing left for {task.role}"
    return Failure("RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", message, (("role", task.role),))


def _too_small(task: Task, kind: str, scope: str, limit: int, spent: int, needed: int) -> Failure:
    unit = _UNITS[kind]
    owner = f"the task of {scope}" if scope else "the run"
    message = (
        f"insufficient budget of {owner}: {max(0, limit - spent):,} of {limit:,} {unit} left, "
        f"{task.role} needs {needed:,}"
    )
    metadata = {
        "budget": kind,
        "limit": str(limit),
        "needed": str(needed),
        "role": task.role,
        "scope": scope or "run",
        "spent": str(spent),
    }
    return Failure("RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", message, tuple(metadata.items()))
