"""Frames about a run that this replica does not hold: its owner is read from the journal, and may change meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import pytest

from archon.errors import Unavailable
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Requirement, Submission, TaskState
from archon_services.orchestrator.journal import MemoryJournal, OwnerRow, RunRow, Step, StepResult
from archon_services.orchestrator.ports import Delivery, Slot, Transport
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from tests.fixtures.waiting import eventually, run_ready_tasks
from tests.unit.services.orchestrator.runs.transports import Instances


class Slow(MemoryJournal):
    """A journal whose `run` waits for the test and then raises Unavailable."""

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.answers = asyncio.Event()

    async def run(self, run_id: str) -> RunRow | None:
        await self.answers.wait()
        raise Unavailable("cannot reach the database")


class OneInstance(Instances):
    """A transport with one slot that records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def of_tenant(self, tenant: str) -> Any:
        return self

    def stateful(self, role: str) -> bool:
        return False

    def message_types(self, role: str) -> dict[str, str]:
        return {}

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        return Slot("a-1")

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append(name)


class Late(MemoryJournal):
    """A journal whose commits are answered when the test sets `answers`."""

    inline = False

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.answers = asyncio.Event()

    def commit(self, steps: Sequence[Step]) -> asyncio.Future[list[StepResult]]:  # type: ignore[override]
        results = super().commit(steps)

        async def answer() -> list[StepResult]:
            await self.answers.wait()
            return results

        return asyncio.ensure_future(answer())


class Receipt:
    """A receipt that must not be acknowledged or discarded."""

    def accept(self, epoch: int = 0) -> None:
        raise AssertionError

    def discard(self, reason: str, epoch: int = 0) -> None:
        raise AssertionError


async def test_a_run_submitted_during_a_lookup_keeps_its_attempts() -> None:
    journal, instances = Slow(), Instances()
    runs = Runs(owner="o1", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, instances))
    runs.claimed()
    checkpoint = Delivery(inp.CheckpointIn("r.1", 1, 1), cast(Any, Receipt()))
    runs.deliver("r", checkpoint)
    runs.deliver("other", checkpoint)
    await journal.enter(OwnerRow("o1", "", 1, 0))
    await runs.submit(Submission("r", "t", "", "", "pipeline", ("a",), (), 60.0, None), b"")
    journal.answers.set()
    await run_ready_tasks()
    assert instances.released == ["other"]
    await runs.stop()


@pytest.mark.parametrize("released", [True, False], ids=["after a release", "without a release"])
async def test_a_run_claimed_before_its_creation_is_answered_runs_once(
    released: bool,
) -> None:
    journal, instances = Late(), OneInstance()
    runs = Runs(owner="o1", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, instances))
    submit = asyncio.create_task(runs.submit(Submission("r", "t", "", "", "pipeline", ("a",), (), 60.0, None), b""))
    await run_ready_tasks()
    await journal.enter(OwnerRow("o2", "", 1, 0))  # the first incarnation has expired
    runs.owner = "o2"
    if released:
        runs.release_all()
    row = await journal.claim("r", "o2")
    assert row is not None
    await runs.take_over(row, ())
    await run_ready_tasks()
    journal.answers.set()
    assert await submit == ("r", True)
    await run_ready_tasks()
    assert sorted(instances.calls) == ["adopt", "release"], "the slot was reserved once, by the new owner"
    assert runs.holds("r")
    await runs.stop()


async def test_a_result_of_a_later_owners_attempt_is_not_discarded_by_the_earlier_one() -> None:
    journal, instances = MemoryJournal(shared=True), Instances()
    runs = Runs(owner="o1", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, instances))
    await runs.submit(Submission("r", "t", "", "", "pipeline", ("a",), (), 60.0, None), b"")
    await journal.enter(OwnerRow("o2", "", 1, 0))
    assert await journal.claim("r", "o2") is not None
    assert runs.holds("r"), "the earlier owner does not know yet"
    result = inp.ResultIn("r.1", 1, TaskState.COMPLETED, None)
    runs.deliver("r", Delivery(result, cast(Any, Receipt()), source="a-1"))
    await eventually(lambda: _false(runs.holds("r")))
    await runs.stop()


async def test_an_attempt_that_no_owner_has_dispatched_is_discarded() -> None:
    class Discarded(Receipt):
        reason = ""

        def discard(self, reason: str, epoch: int = 0) -> None:
            self.reason = reason

    journal, receipt = MemoryJournal(shared=True), Discarded()
    runs = Runs(owner="o1", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, Instances()))
    await journal.enter(OwnerRow("o1", "", 1, 0))
    await runs.submit(Submission("r", "t", "", "", "pipeline", ("a",), (), 60.0, None), b"")
    result = inp.ResultIn("r.1", 7, TaskState.COMPLETED, None)
    runs.deliver("r", Delivery(result, cast(Any, receipt), source="liar"))
    await eventually(lambda: _false(not receipt.reason))
    assert (receipt.reason, runs.holds("r")) == ("ABORTED", True)
    await runs.stop()


async def _false(value: bool) -> bool:
    return not value
