"""The journal that all replicas share, and the connection of each replica to it, which may be slow or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextvars import Context
from typing import Any, cast

from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_services.orchestrator.journal import (
    Journal,
    MemoryJournal,
    Outcome,
    RunRow,
    SameRequest,
    Step,
    StepResult,
)
from tests.simulation.check import Check
from tests.simulation.faults import Dice
from tests.simulation.loop import Process, VirtualLoop

WALL = 1_700_000_000.0
"""The store's clock at virtual time 0, in seconds."""

WRITES = frozenset({"enter", "beat", "expire", "leave", "claim", "claim_some", "post", "drop"})


class SharedStore(MemoryJournal):
    """The database. It reports all that it stores to `check`; `caller` is the process of the current transaction."""

    def __init__(self, check: Check) -> None:
        super().__init__(shared=True)
        self.caller: Process | None = None
        self._check = check
        self.gone_until = self.slow_until = self.full_until = 0.0

    async def now(self) -> float:
        return WALL + self._check.loop.now

    def _commit(self, step: Step) -> Outcome | SameRequest:
        stored = self._stored.get(step.run_id)
        before = len(stored.steps) if stored is not None else 0
        result = super()._commit(step)
        if step.new is not None and result is Outcome.DONE:
            self._check.created(self.caller, step.new, step)
        elif step.new is None and len(self._stored[step.run_id].steps if stored is not None else ()) > before:
            self._check.stored(self.caller, step)
        return result

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        row = await super().claim(run_id, owner)
        if row is not None:
            self._check.claimed(self.caller, row)
        return row


class View:
    """A replica's connection to the store. Until `gone_until` this replica cannot reach it."""

    shared = True
    inline = False
    durability = "none"

    def __init__(self, store: SharedStore, dice: Dice, loop: VirtualLoop, process: Process) -> None:
        self._store = store
        self._dice = dice
        self._loop = loop
        self._process = process
        self.gone_until = 0.0
        self.unanswered: set[str] = set()
        """Runs with a step that was sent and not answered: their owner does not know whether it is durable."""

        self._sending: set[asyncio.Task[None]] = set()
        self.lease_end = 0.0
        """The time at which the last successful renewal of the lease was sent."""

    @classmethod
    def journal(cls, store: SharedStore, dice: Dice, loop: VirtualLoop, process: Process) -> tuple[View, Journal]:
        """Returns the same view twice: with its own type, and as a Journal."""
        view = cls(store, dice, loop, process)
        return view, cast(Journal, view)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        call = self._write if name in WRITES else self._read

        def operation(*arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
            return call(name, arguments, named)

        setattr(self, name, operation)
        return operation

    def listen(self, on_command: Any) -> None:
        """Does nothing: replicas poll for commands."""

    async def newer_runs(self, revision: int, limit: int) -> list[str]:
        """Is without faults: nothing is decided by it, and recorded seeds stay as they are."""
        return await self._store.newer_runs(revision, limit)

    async def _reach(self) -> None:
        until = max(self.gone_until, self._store.gone_until)
        if self._loop.now >= until:
            return
        wait = self._dice.random.choice([0.01, 0.3, min(until - self._loop.now, 5.0)])
        await asyncio.sleep(wait)  # refused immediately, or not answered
        if self._loop.now < until:
            raise Unavailable("cannot reach the database")

    async def _read(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        await self._reach()
        chance = self._dice.random.random()
        if chance < 0.1 or self._loop.now < self._store.slow_until:
            await asyncio.sleep(self._slow(self._dice.delay(0.003, "journal slow")))
        if self._dice.fault("journal read fails", 0.002):
            raise Unavailable("the connection died")
        return await getattr(self._store, name)(*arguments, **named)

    def _slow(self, seconds: float) -> float:
        return seconds + self._dice.random.random() * 0.3 if self._loop.now < self._store.slow_until else seconds

    def commit(self, steps: Sequence[Step]) -> asyncio.Future[list[StepResult]]:
        """Sends a group of steps. The transaction continues if the caller is halted."""
        results: asyncio.Future[list[StepResult]] = self._loop.create_future()
        task = asyncio.create_task(self._send(steps, results))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return results

    async def _send(self, steps: Sequence[Step], results: asyncio.Future[list[StepResult]]) -> None:
        run_ids = {step.run_id for step in steps}
        self.unanswered |= run_ids
        try:
            answers = await self._write("commit", (steps,), {})
        except ArchonError as error:
            answers = [error] * len(steps)
        finally:
            self.unanswered -= run_ids
        if not results.done():
            results.set_result(answers)

    async def _write(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Executes a write. The transaction belongs to the database: it continues if the caller is halted."""
        sent = self._loop.now
        await self._reach()
        if name == "commit" and self._loop.now < self._store.full_until:
            raise ResourceExhausted("the disk is full", retry_delay=0.5)
        if self._dice.fault("journal fails before the commit", 0.006):
            raise Unavailable("the disk is slow today")
        answer: asyncio.Future[Any] = self._loop.create_future()
        delay = self._slow(self._dice.delay(0.003, "journal slow"))
        self._loop.call_at(self._loop.now + delay, self._commit, name, arguments, named, answer, sent, context=_OUTSIDE)
        result = await answer
        if self._dice.random.random() < 0.2:
            await asyncio.sleep(self._dice.delay(0.002, "journal slow"))
        return result

    def _commit(
        self, name: str, arguments: tuple[Any, ...], named: dict[str, Any], answer: asyncio.Future[Any], sent: float
    ) -> None:
        self._store.caller = self._process
        try:
            result = _now(getattr(self._store, name)(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            if not answer.done():
                answer.set_exception(error)
            return
        if name == "enter" or (name == "beat" and result):
            self.lease_end = max(self.lease_end, sent)  # an earlier heartbeat may arrive after a later one
        if answer.done():
            return
        if self._dice.fault("journal fails after the commit", 0.006):
            answer.set_exception(Unavailable("the connection died"))
        else:
            answer.set_result(result)


def _now(work: Any) -> Any:
    """Returns the result of a call, or of a coroutine that never waits."""
    if not isinstance(work, Coroutine):
        return work
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a store in memory never waits")


_OUTSIDE = Context()
