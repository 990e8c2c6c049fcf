"""What an agent says of a run that isn't held here: whose it is stands in the journal, and may change while that is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from archon.errors import Unavailable
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Requirement, Submission
from archon_services.orchestrator.journal import MemoryJournal, OwnerRow, RunRow, Step, StepResult
from archon_services.orchestrator.ports import Delivery, SystemClock, Transport
from archon_services.orchestrator.runs.manager import Runs


class Slow(MemoryJournal):
    """Answers whose a run is only when it is told to, and then that it can't."""

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.answers = asyncio.Event()

    async def run(self, run_id: str) -> RunRow | None:
        await self.answers.wait()
        raise Unavailable("the database can't be reached")


class Instances:
    """Has no room, and remembers what it was to forget."""

    def __init__(self) -> None:
        self.let_go_of: list[str] = []

    def stateful(self, role: str) -> bool:
        return False

    def reserve(self, want: Requirement) -> str | None:
        return None

    def when_free(self, want: Requirement, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        self.let_go_of.append(run_id)


class OneInstance(Instances):
    """Has one slot, and remembers what is done about it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def stateful(self, role: str) -> bool:
        return False

    def reserve(self, want: Requirement) -> str | None:
        return "a-1"

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.done.append(name)


class Late(MemoryJournal):
    """Answers a commit only when it is told to."""

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
    """Hears nothing."""

    def accept(self, epoch: int = 0) -> None:
        raise AssertionError

    def discard(self, reason: str, epoch: int = 0) -> None:
        raise AssertionError


async def test_a_run_that_is_taken_up_while_it_is_asked_whose_it_is_keeps_its_attempts() -> None:
    journal, instances = Slow(), Instances()
    runs = Runs(owner="o1", clock=SystemClock(), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, instances))
    runs.claimed()
    said = Delivery(inp.CheckpointIn("r.1", 1, 1), cast(Any, Receipt()))
    runs.deliver("r", said)
    runs.deliver("other", said)
    await journal.enter(OwnerRow("o1", "", 1, 0))
    await runs.submit(Submission("r", "t", "", "", "pipeline", ("a",), (), 60.0, None), b"")
    journal.answers.set()
    await asyncio.sleep(0.01)
    assert instances.let_go_of == ["other"]
    await runs.stop()


@pytest.mark.parametrize("asked_after", [False, True], ids=["asked for before all was let go", "and after"])
async def test_a_run_that_is_claimed_in_another_name_before_its_creation_is_answered_is_driven_once(
    asked_after: bool,
) -> None:
    journal, instances = Late(), OneInstance()
    runs = Runs(owner="o1", clock=SystemClock(), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, instances))
    submit = asyncio.create_task(runs.submit(Submission("r", "t", "", "", "pipeline", ("a",), (), 60.0, None), b""))
    await asyncio.sleep(0.01)
    await journal.enter(OwnerRow("o2", "", 1, 0))  # the first name was buried
    runs.owner = "o2"
    if not asked_after:
        runs.release_all()
    row = await journal.claim("r", "o2")
    assert row is not None
    await runs.take_over(row, (), SystemClock())
    await asyncio.sleep(0.01)
    journal.answers.set()
    assert await submit == ("r", True)
    await asyncio.sleep(0.01)
    assert sorted(instances.done) == ["adopt", "release"], "the slot was taken once, by its new owner"
    assert runs.holds("r")
    await runs.stop()
