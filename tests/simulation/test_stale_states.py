"""States ahead of the journal, and states of another owner, have no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from archon.errors import Unavailable
from archon.wire import timestamp
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import engine
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.journal import Outcome, Step, StepResult
from archon_services.orchestrator.ports import Delivery
from tests.fixtures.journal import step_of
from tests.fixtures.run_events import event_to_proto
from tests.simulation.test_ownership import RecordingReceipt, calm_world, ended, run_virtual, submission, submit


def refused(steps: Sequence[Step]) -> list[StepResult]:
    """Refuses every step, as an unreachable journal."""
    return [Unavailable("the database is gone") for _ in steps]


def test_durability_3_a_state_without_an_append_has_no_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        finished = world.runs._drivers["r"].finished()
        real = world.store.steps

        async def gone(*arguments: Any) -> Any:
            raise Unavailable("the database is gone")

        receipt = RecordingReceipt()
        with monkeypatch.context() as planted:
            planted.setattr(world.store, "commit", refused)
            planted.setattr(world.store, "steps", gone)
            world.runs.deliver("r", Delivery(inp.Cancel("me", ""), receipt))
            await asyncio.sleep(3)
            assert not finished.done()
            assert not receipt.done
        assert world.store.steps == real
        assert (await ended(world, "r", 20)).state is TaskState.CANCELED
        assert receipt.done

    run_virtual(course())


def test_durability_3_a_higher_epoch_in_a_fold_deposes_the_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        driver = world.runs._drivers["r"]
        await world.store.leave(world.runs.owner)
        await world.store.claim("r", "another owner")
        claimed = inp.Claim("another owner", 2)
        event = event_to_proto(
            engine.decide(driver.state, claimed, 1.0)[0], run_id="r", seq=3, time=timestamp(1.0), epoch=2
        )
        last = driver.state.last_seq
        event.seq = last + 1
        step = step_of("r", last, [event.SerializeToString()], epoch=2)
        monkeypatch.setattr(world.check, "stored", lambda *arguments: None)
        assert world.store.commit([step]) == [Outcome.DONE]
        driver.doubtful = True
        driver.wake()
        await asyncio.wait_for(driver.finished(), 5)
        assert driver.deposed

    run_virtual(course())


def test_a_cancelled_submit_creates_its_run_and_leaks_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def course() -> None:
        world = await calm_world()
        await asyncio.sleep(1)
        replica = world.replicas[0]
        submitting = replica.process.start(world.runs.submit(submission("r"), b""))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        session = next(iter(replica.pool._sessions.values()))
        assert session.reserved == 1
        submitting.cancel()
        await asyncio.wait([submitting])
        assert (await ended(world, "r", 20)).state is TaskState.COMPLETED
        assert not session.reserved

    run_virtual(course())


def test_a_refused_creation_leaks_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def course() -> None:
        world = await calm_world()
        await asyncio.sleep(1)
        session = next(iter(world.replicas[0].pool._sessions.values()))
        monkeypatch.setattr(world.store, "commit", refused)
        with pytest.raises(Unavailable):
            await submit(world, submission("r"))
        assert not session.reserved
        assert not world.runs.holds("r")

    run_virtual(course())


def test_durability_3_a_stopped_driver_reports_no_undurable_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        driver, late = world.runs._drivers["r"], RecordingReceipt()
        monkeypatch.setattr(world.replicas[0].view, "commit", lambda steps: asyncio.Future(), raising=False)
        world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        await asyncio.sleep(0.1)
        assert driver.state.ended, "no attempt is in progress, so the cancel ends the run"
        world.runs.deliver("r", Delivery(inp.Cancel("you", ""), late))
        await driver.cancel()
        assert not late.done, "the command is neither accepted nor discarded"
        assert not driver.ended

    run_virtual(course())


def test_durability_3_effects_follow_an_append_found_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("a",)))
        agent = next(agent for agent in world.agents.values() if agent.role == "a")
        real = world.store.commit
        await asyncio.sleep(0.05)
        assert any(attempt.working for attempt in agent.server.attempts)

        def unanswered(steps: Sequence[Step]) -> list[StepResult]:
            monkeypatch.setattr(world.store, "commit", refused)
            real(steps)
            return refused(steps)

        monkeypatch.setattr(world.store, "commit", unanswered)
        world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        await asyncio.sleep(0.1)
        assert not any(attempt.working for attempt in agent.server.attempts)

    run_virtual(course())


def test_durability_3_a_deposed_owner_discards_no_newer_attempt() -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        (name,) = world.runs._drivers["r"].state.tasks
        for task_id, attempt in ((name, 1), ("r.9", 1)):
            receipt = RecordingReceipt()
            world.runs.deliver("r", Delivery(inp.WorkingIn(task_id, attempt), receipt))
            await asyncio.sleep(1)
            assert not receipt.discarded, "the new owner may have dispatched the attempt"
        stale = RecordingReceipt()
        world.runs.deliver("r", Delivery(inp.WorkingIn(name, 0), stale))
        await asyncio.sleep(1)
        assert stale.discarded

    run_virtual(course())


def test_durability_10_a_run_is_not_held_if_its_owner_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        runs, driver = world.runs, world.runs._drivers["r"]
        driver.depose()
        await asyncio.wait_for(driver.finished(), 5)
        row = await world.store.claim("r", runs.owner)
        assert row is not None
        real = world.store.steps

        async def slow(*arguments: Any) -> Any:
            runs.owner = "a new incarnation"
            return await real(*arguments)

        monkeypatch.setattr(world.store, "steps", slow)
        await runs.take_over(row, ())
        assert not runs.holds("r"), "its owner has expired; another replica will claim the run"
        assert "r" not in runs._awaited

    run_virtual(course())


def test_durability_10_a_takeover_of_an_old_epoch_has_no_effect() -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        runs = world.runs
        rows = [await world.store.claim("r", runs.owner) for _ in range(2)]
        for row in reversed(rows):
            assert row is not None
            await runs.take_over(row, ())
        driver = runs._drivers["r"]
        assert (driver.epoch, driver.deposed) == (3, False)

    run_virtual(course())


def test_a_result_for_a_run_that_ended_elsewhere_is_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        row = await world.store.claim("r", world.runs.owner)
        assert row is not None

        async def gone(*arguments: Any) -> Any:
            raise Unavailable("the database is gone")

        with monkeypatch.context() as planted:
            planted.setattr(world.store, "steps", gone)
            with pytest.raises(Unavailable):
                await world.runs.take_over(row, ())
        receipt = RecordingReceipt()
        result = inp.ResultIn("r.1", 1, TaskState.COMPLETED, None)
        world.runs.deliver("r", Delivery(result, receipt))
        await asyncio.sleep(0.5)
        assert not receipt.done and not receipt.discarded, "the replica that takes over the run adopts the attempt"
        world.store._rows["r"] = replace(world.store._rows["r"], ended_at=1.0)
        world.runs.deliver("r", Delivery(result, receipt))
        await asyncio.sleep(0.5)
        assert receipt.discarded

    run_virtual(course())
