"""Replaces the clock and the random numbers of real modules by virtual ones while a course runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from archon import context, frames
from archon.agent import agent_sessions, attempt, attempt_table, session, task, work_list
from archon_mesh.engine import Effect, RunState
from archon_services.orchestrator import ports
from archon_services.orchestrator.runs.clock import clocks
from archon_services.orchestrator.runs.driver import RunDriver
from archon_services.orchestrator.runs.effects import EffectExecutor
from archon_services.orchestrator.sessions import attempts
from archon_services.orchestrator.sessions import session as sessions
from tests.simulation.loop import end_other_tasks

MAX_RECORDS = 2

_TIMED: tuple[Any, ...] = (context, frames, attempt, agent_sessions, session, attempt_table, task, ports, clocks)
_CHANCY: tuple[Any, ...] = (agent_sessions, sessions)


@asynccontextmanager
async def machine(
    dice: random.Random,
    stream: Any,
    wall: Callable[[], float],
    executed: Callable[..., None],
    failed: Callable[[str, Exception], None],
) -> AsyncIterator[None]:
    """Within the block the code of agents and sessions uses virtual time, sessions create their streams with `stream`
    and store records ahead when there are MAX_RECORDS, `executed` is called with the effects of a run that are executed,
    and `failed` with a run whose driver failed. All other tasks are ended before the block ends: a session that went on
    would open a real stream."""
    execute, fail = EffectExecutor.execute, RunDriver.fail

    def observed(self: EffectExecutor, effects: Iterable[Effect], run: RunState, now: float) -> None:
        opened = list(effects)
        executed(self, self._run_id, run.last_seq, opened)
        execute(self, opened, run, now)

    def observed_fail(self: RunDriver, error: Exception) -> None:
        failed(self.run_id, error)
        fail(self, error)

    loop = asyncio.get_running_loop()
    clock = SimpleNamespace(monotonic=loop.time, time=wall)
    before = [(module, name, getattr(module, name)) for name, modules in _NAMES.items() for module in modules]
    try:
        for module in _TIMED:
            module.time = clock
        for module in _CHANCY:
            module.random = dice
        setattr(EffectExecutor, "execute", observed)  # noqa: B010 - mypy takes a method for constant
        setattr(RunDriver, "fail", observed_fail)  # noqa: B010
        setattr(work_list, "backoff", lambda tried, error, longest: min(longest, 0.1 * 2.0 ** min(tried, 10)))  # noqa: B010
        setattr(sessions, "Stream", stream)  # noqa: B010 - another type than the declared one
        setattr(attempts, "MAX_RECORDS", MAX_RECORDS)  # noqa: B010 - a constant
        yield
    finally:
        await end_other_tasks()
        setattr(EffectExecutor, "execute", execute)  # noqa: B010
        setattr(RunDriver, "fail", fail)  # noqa: B010
        for module, name, value in before:
            setattr(module, name, value)


_NAMES: dict[str, tuple[Any, ...]] = {
    "time": _TIMED,
    "random": _CHANCY,
    "Stream": (sessions,),
    "backoff": (work_list,),
    "MAX_RECORDS": (attempts,),
}
