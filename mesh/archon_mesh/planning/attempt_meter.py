"""The spending of one attempt, within the budget that its run reserves for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Protocol

from archon.errors import BudgetExhausted
from archon_mesh.engine import LocalRun, RunState, Task
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.budget import exhausted
from archon_mesh.engine.types import NOTHING, Amount, Budget, Failure


class Reservation(Protocol):
    """The part of a budget that a meter may use."""

    @property
    def amount(self) -> Amount:
        """The amount that is reserved now."""
        ...

    async def extend(self, needed: Amount) -> Failure | None:
        """Reserves more, so that the amount covers `needed`; returns why not if too little is left."""
        ...


class AttemptMeter:
    """Counts the model calls of one attempt, and has the budget cover each before it is made."""

    def __init__(self, limits: Budget, reservation: Reservation) -> None:
        self._limits = limits
        self._reservation = reservation
        self._open = NOTHING
        self._lock = asyncio.Lock()
        self.spent = NOTHING
        self.refusal: Failure | None = None
        """Why the run has refused more of its budget; None if it has not."""

    @asynccontextmanager
    async def reserved(self, tokens: int, cost: int, spent: Callable[[], Amount]) -> AsyncIterator[None]:
        """Reserves the most that one model call may use, and counts the amount that it has `spent` afterwards. `cost`
        is in millionths of a US dollar. Raises BudgetExhausted if too little is left."""
        wanted = Amount(tokens, cost, 1)
        async with self._lock:
            await self._cover(wanted)
            self._open += wanted
        try:
            yield
        finally:
            self._open -= wanted
            self.spent += spent()

    async def _cover(self, wanted: Amount) -> None:
        limits, reserved = self._limits, self._reservation.amount
        needed = self.spent + self._open + wanted
        missing = Amount(
            max(0, needed.tokens - reserved.tokens) if limits.tokens else 0,
            max(0, needed.cost - reserved.cost) if limits.cost else 0,
            max(0, needed.calls - reserved.calls) if limits.calls else 0,
        )
        if missing == NOTHING:
            return
        if (failure := await self._reservation.extend(missing)) is not None:
            self.refusal = failure
            raise BudgetExhausted(failure.message, metadata=dict(failure.metadata))


class RunReservation:
    """The reservation of an attempt under way, which its run extends."""

    def __init__(self, run: LocalRun, task: Task) -> None:
        self._run = run
        self._task = task
        self._numbers = itertools.count(1)

    @property
    def amount(self) -> Amount:
        return self._task.reserved

    async def extend(self, needed: Amount) -> Failure | None:
        task = self._task
        request_id = f"{task.attempt}-{next(self._numbers)}"
        request = inp.BudgetRequestIn(task.task_id, task.attempt, request_id, task.applied + 1, needed)
        granted = await self._run.reserve(request)
        return granted if isinstance(granted, Failure) else None


class RestReservation:
    """The budget that an ended run has left, for the last changes of its answer."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.amount = NOTHING

    async def extend(self, needed: Amount) -> Failure | None:
        assert self._state.submission is not None
        budget, spent, amount = self._state.submission.budget, self._state.spent, self.amount + needed
        for limit, used, wanted in (
            (budget.tokens, spent.tokens, amount.tokens),
            (budget.cost, spent.cost, amount.cost),
            (budget.calls, spent.calls, amount.calls),
        ):
            if limit and used + wanted > limit:
                return exhausted(self._state, self._state.roots()[0], needed)
        self.amount = amount
        return None


_meter: ContextVar[AttemptMeter | None] = ContextVar("archon_attempt_meter", default=None)


def bind_meter(meter: AttemptMeter | None) -> None:
    """Has the model calls of this asyncio task, and of the tasks that it starts, count as the attempt's."""
    _meter.set(meter)


def current_meter() -> AttemptMeter | None:
    """Returns the meter of the attempt that this code works on; None outside a plan with a budget."""
    return _meter.get()
