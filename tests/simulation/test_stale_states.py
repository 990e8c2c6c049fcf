"""States that are more than what is durable, or another owner's: nothing comes of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from archon.errors import Unavailable
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide import engine
from archon_mesh.core.run.types import TaskState
from archon_services.orchestrator.convert import event_to_proto
from archon_services.orchestrator.convert.write import timestamp
from archon_services.orchestrator.journal import Append, Outcome
from archon_services.orchestrator.ports import Delivery, SystemClock
from tests.simulation.test_ownership import Told, calm_world, ended, run_virtual, submit, wanted


def test_durability_3_a_state_that_was_decided_and_not_appended_is_neither_acted_on_nor_taken_for_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        driver = world.runs._drivers["r"]
        real = world.store.events

        async def gone(*arguments: Any) -> Any:
            raise Unavailable("the database is gone")

        told = Told()
        with monkeypatch.context() as planted:
            planted.setattr(world.store, "append", gone)
            planted.setattr(world.store, "events", gone)
            world.runs.deliver("r", Delivery(inp.Cancel("me", ""), told))
            await asyncio.sleep(3)
            assert not driver.finished.is_set()
            assert not told.done
        assert world.store.events == real
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
        append = Append("r", 2, last, "b", 1.0, (event.SerializeToString(),), b"", 2, False)
        monkeypatch.setattr(world.check, "stored", lambda *arguments: None)
        assert await world.store.append(append) is Outcome.DONE
        driver.doubtful = True
        driver.wake()
        await asyncio.wait_for(driver.finished.wait(), 5)
        assert driver.deposed

    run_virtual(course())


def test_a_submit_that_nobody_waits_for_any_more_gives_back_the_slot_that_it_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await asyncio.sleep(1)
        never = asyncio.Event()
        with monkeypatch.context() as planted:
            planted.setattr(world.store, "create", lambda *arguments: never.wait())
            replica = world.replicas[0]
            asking = replica.process.start(world.runs.submit(wanted("r"), b""))
            planted.setattr("tests.simulation.store._now", lambda work: work.close())
            await asyncio.sleep(0)
            session = next(iter(replica.pool._sessions.values()))
            assert session.reserved == 1
            asking.cancel()
            await asyncio.wait([asking])
            assert not session.reserved

    run_virtual(course())


def test_durability_3_a_driver_that_is_stopped_while_it_appends_takes_nothing_for_the_end_of_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("nobody",)))
        driver, task = world.runs._drivers["r"], world.runs._tasks["r"]
        appending, late = asyncio.Event(), Told()

        async def hangs(*arguments: Any) -> Any:
            appending.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(driver._journal, "append", hangs, raising=False)
        world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        await asyncio.wait_for(appending.wait(), 5)
        assert driver.state.ended, "nothing is under way: it has decided to end"
        world.runs.deliver("r", Delivery(inp.Cancel("you", ""), late))
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert not late.done, "neither that it has happened nor that it is too late"

    run_virtual(course())


def test_durability_3_what_an_unanswered_append_made_durable_is_done_as_soon_as_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, wanted("r", ("a",)))
        agent = next(one for one in world.agents.values() if one.role == "a")
        driver = world.runs._drivers["r"]
        real = driver._journal.append
        await asyncio.sleep(0.05)
        assert any(held.working for held in agent.server.attempts)

        async def unanswered(append: Append) -> Outcome:
            monkeypatch.setattr(driver._journal, "append", gone)
            await real(append)
            raise Unavailable("the connection died")

        async def gone(append: Append) -> Outcome:
            raise Unavailable("the database takes nothing more")

        monkeypatch.setattr(driver._journal, "append", unanswered)
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
        await asyncio.wait_for(driver.finished.wait(), 5)
        await asyncio.sleep(0)
        row = await world.store.claim("r", runs.owner)
        assert row is not None
        real = world.store.events

        async def slow(*arguments: Any) -> Any:
            runs.owner = "a new name"
            return await real(*arguments)

        monkeypatch.setattr(world.store, "events", slow)
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
            planted.setattr(world.store, "events", gone)
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
