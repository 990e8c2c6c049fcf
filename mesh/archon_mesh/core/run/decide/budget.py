"""A run's budget: reserved before it is spent, settled after; one for all tasks of the run."""

from __future__ import annotations

from collections.abc import Iterable

from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import NO_LIMIT, NOTHING, Amount, Budget, Failure

SLICES = 8
"""An attempt is given this part of its budget to begin with, and never more than half of what is left: so that however
many begin at once, all do. For more it asks."""

MAX_DEPTH = 8
"""How deep delegations may nest where the run says nothing."""


def limits(run: RunState, task: Task) -> tuple[bool, bool]:
    """Whether tokens are limited, whether cost is."""
    assert run.submission is not None
    if not task.parent and run.submission.budget == NO_LIMIT:
        return False, False
    budgets = _budgets(run, task)
    return any(budget.tokens for budget in budgets), any(budget.cost for budget in budgets)


def left(run: RunState, task: Task) -> Amount:
    """What the task may still reserve, of the run's budget and of its parts that were set aside for it and for those
    that delegated it. A kind without a limit reads as 0."""
    assert run.submission is not None
    bounds = [(run.submission.budget, run.spent + _sum(other.reserved for other in run.tasks.values()))]
    for above in run.lineage(task):
        used = _sum(one.spent + one.reserved for one in [above, *run.descendants(above)])
        bounds.append((above.budget, used))
    tokens = min((most.tokens - used.tokens for most, used in bounds if most.tokens), default=0)
    cost = min((most.cost - used.cost for most, used in bounds if most.cost), default=0)
    return Amount(max(0, tokens), max(0, cost))


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NOTHING)


def first_slice(run: RunState, task: Task) -> Amount | Failure | None:
    """What an attempt is given to begin with; None where the run has no budget, a Failure where nothing is left."""
    tokens, cost = limits(run, task)
    if not tokens and not cost:
        return None
    free = left(run, task)
    if (tokens and not free.tokens) or (cost and not free.cost):
        return exhausted(task)
    budgets = _budgets(run, task)
    return Amount(
        _slice(free.tokens, [budget.tokens for budget in budgets]) if tokens else 0,
        _slice(free.cost, [budget.cost for budget in budgets]) if cost else 0,
    )


def _slice(free: int, limits: Iterable[int]) -> int:
    return max(1, min(min(limit for limit in limits if limit) // SLICES, free // 2))


def _budgets(run: RunState, task: Task) -> list[Budget]:
    """All that bound a task: the run's, and the parts of those that delegated it and its own."""
    assert run.submission is not None
    return [run.submission.budget, *(above.budget for above in run.lineage(task))]


def grant(run: RunState, task: Task, wanted: Amount) -> Amount | None:
    """What is wanted, of the kinds that are limited; None where there is not so much left."""
    tokens, cost = limits(run, task)
    free = left(run, task)
    if (tokens and wanted.tokens > free.tokens) or (cost and wanted.cost > free.cost):
        return None
    return Amount(wanted.tokens if tokens else 0, wanted.cost if cost else 0)


def overspent(run: RunState, task: Task, spent: Amount) -> bool:
    """Whether an attempt that has spent so much takes the run above its budget."""
    assert run.submission is not None
    limit = run.submission.budget
    reserved = _sum(other.reserved for other in run.tasks.values() if other is not task)
    return _above(limit, run.spent + reserved + spent)


def overspent_part(run: RunState, task: Task, spent: Amount) -> Task | None:
    """The outermost delegated task whose part of the budget an attempt that has spent so much goes above."""
    for above in run.lineage(task):
        if above.budget == NO_LIMIT:
            continue
        others = [one.reserved for one in [above, *run.descendants(above)] if one is not task]
        settled = [one.spent for one in [above, *run.descendants(above)]]
        if _above(above.budget, _sum([*others, *settled, spent])):
            return above
    return None


def _above(limit: Budget, total: Amount) -> bool:
    return bool((limit.tokens and total.tokens > limit.tokens) or (limit.cost and total.cost > limit.cost))


def exhausted(task: Task) -> Failure:
    """Why nothing more is begun."""
    return Failure(
        "RESOURCE_EXHAUSTED",
        "BUDGET_EXHAUSTED",
        f"the budget has nothing left for {task.role}",
        (("role", task.role),),
    )
