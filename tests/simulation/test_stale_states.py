"""States that are more than what is durable, or another owner's: nothing comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from archon.errors import Unavailable
from archon.wire import timestamp
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide import engine
from archon_mesh.core.run.types import TaskState
from archon_services.orchestrator.convert import event_to_proto
from archon_services.orchestrator.journal import Outcome, Step, StepResult
from archon_services.orchestrator.ports import Delivery, SystemClock
from tests.fixtures.journal import step_of
from tests.simulation.test_ownership import Told, calm_world, ended, run_virtual, submit, wanted


def refused(steps: Sequence[Step]) -> list[StepResult]:
    """A journal that takes nothing."""
    return [Unavailable("the database is gone") for _ in steps]


def test_durability_3_a_state_that_was_decided_and_not_appended_is_neither_acted_on_nor_taken_for_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        finished = world.runs._drivers["r"].finished()
        real = world.store.steps

        async def gone(*arguments: Any) -> Any:
            raise Unavailable("the database is gone")

        told = Told()
        with monkeypatch.context() as planted:
            planted.setattr(world.store, "commit", refused)
            planted.setattr(world.store, "steps", gone)
            world.runs.deliver("r", Delivery(inp.Cancel("me", ""), told))
            await asyncio.sleep(3)
            assert not finished.done()
            assert not told.done
        assert world.store.steps == real
        assert (await ended(world, "r", 20)).state is TaskState.CANCELED
        assert told.done

    run_virtual(course())


def test_durability_3_an_owner_that_folds_its_run_and_finds_a_higher_epoch_says_nothing_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        driver = world.runs._drivers["r"]
        await world.store.leave(world.runs.owner)
        await world.store.claim("r", "somebody else")
        claimed = inp.Claim("somebody else", 2)
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
        asking = replica.process.start(world.runs.submit(wanted("r"), b""))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        session = next(iter(replica.pool._sessions.values()))
        assert session.reserved == 1
        asking.cancel()
        await asyncio.wait([asking])
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
            await submit(world, wanted("r"))
        assert not session.reserved
        assert not world.runs.holds("r")

    run_virtual(course())


def test_durability_3_a_stopped_driver_takes_no_undurable_end_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        driver, late = world.runs._drivers["r"], Told()
        monkeypatch.setattr(world.replicas[0].view, "commit", lambda steps: asyncio.Future(), raising=False)
        world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        await asyncio.sleep(0.1)
        assert driver.state.ended, "nothing is under way: it has decided to end"
        world.runs.deliver("r", Delivery(inp.Cancel("you", ""), late))
        await driver.cancel()
        assert not late.done, "neither that it has happened nor that it is too late"
        assert not driver.ended

    run_virtual(course())


def test_durability_3_what_an_unanswered_append_made_durable_is_done_as_soon_as_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("a",)))
        agent = next(one for one in world.agents.values() if one.role == "a")
        real = world.store.commit
        await asyncio.sleep(0.05)
        assert any(held.working for held in agent.server.attempts)

        def unanswered(steps: Sequence[Step]) -> list[StepResult]:
            monkeypatch.setattr(world.store, "commit", refused)
            real(steps)
            return refused(steps)

        monkeypatch.setattr(world.store, "commit", unanswered)
        world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        await asyncio.sleep(0.1)
        assert not any(held.working for held in agent.server.attempts)

    run_virtual(course())


def test_durability_3_an_owner_that_was_deposed_and_has_not_heard_of_it_stops_nothing_it_does_not_know() -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        (name,) = world.runs._drivers["r"].state.tasks
        for task_id, attempt in ((name, 1), ("r.9", 1)):
            told = Told()
            world.runs.deliver("r", Delivery(inp.WorkingIn(task_id, attempt), told))
            await asyncio.sleep(1)
            assert not told.discarded, "its new owner may have dispatched it"
        stale = Told()
        world.runs.deliver("r", Delivery(inp.WorkingIn(name, 0), stale))
        await asyncio.sleep(1)
        assert stale.discarded

    run_virtual(course())


def test_durability_10_a_run_is_not_held_that_was_claimed_in_a_name_which_was_buried_while_it_was_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        runs, driver = world.runs, world.runs._drivers["r"]
        driver.depose()
        await asyncio.wait_for(driver.finished(), 5)
        row = await world.store.claim("r", runs.owner)
        assert row is not None
        real = world.store.steps

        async def slow(*arguments: Any) -> Any:
            runs.owner = "a new name"
            return await real(*arguments)

        monkeypatch.setattr(world.store, "steps", slow)
        await runs.take_over(row, (), SystemClock(world.true_wall))
        assert not runs.holds("r"), "its owner is dead, and others will claim it"
        assert "r" not in runs._awaited

    run_virtual(course())


def test_durability_10_what_was_claimed_before_and_is_taken_up_after_a_later_claim_changes_nothing() -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        runs = world.runs
        rows = [await world.store.claim("r", runs.owner) for _ in range(2)]
        for row in reversed(rows):
            assert row is not None
            await runs.take_over(row, (), SystemClock(world.true_wall))
        driver = runs._drivers["r"]
        assert (driver.epoch, driver.deposed) == (3, False)

    run_virtual(course())


def test_what_agents_bring_of_a_run_that_another_ended_while_it_could_not_be_taken_up_here_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        row = await world.store.claim("r", world.runs.owner)
        assert row is not None

        async def gone(*arguments: Any) -> Any:
            raise Unavailable("the database is gone")

        with monkeypatch.context() as planted:
            planted.setattr(world.store, "steps", gone)
            with pytest.raises(Unavailable):
                await world.runs.take_over(row, (), SystemClock(world.true_wall))
        told = Told()
        result = inp.ResultIn("r.1", 1, TaskState.COMPLETED, None)
        world.runs.deliver("r", Delivery(result, told))
        await asyncio.sleep(0.5)
        assert not told.done and not told.discarded, "whoever takes it up asks for it"
        world.store._rows["r"] = replace(world.store._rows["r"], ended_at=1.0)
        world.runs.deliver("r", Delivery(result, told))
        await asyncio.sleep(0.5)
        assert told.discarded

    run_virtual(course())
