"""Who holds a run, in virtual time: one fault at a time, looked at closely."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ResourceExhausted, Unavailable
from archon_mesh.core.run import RunState, engine
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Submission, TaskState
from archon_services.orchestrator import driver as driver_module
from archon_services.orchestrator.driver import MAX_INBOX
from archon_services.orchestrator.folding import fold_run
from archon_services.orchestrator.ownership import LOOK_AFTER
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs import MAX_STALLED, Runs
from tests.simulation.faults import Dice
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.validator import Check
from tests.simulation.world import SimTransport, World


async def calm_world() -> World:
    """One agent, no faults."""
    dice, check = Dice(1), Check()
    dice.calm = True
    world = World(dice, cast(VirtualLoop, asyncio.get_running_loop()), check)
    check.journal = world.journal
    world.add_agent("a")
    await world.start_orchestrator()
    return world


def wanted(run_id: str, roles: tuple[str, ...] = ("a",)) -> Submission:
    """A run of one role."""
    return Submission(run_id, "default", run_id, "", "pipeline", roles, (), 60.0, run_pb2.Submitted())


async def ended(world: World, run_id: str, within: float) -> RunState:
    """The state when it has ended; raises TimeoutError."""
    async with asyncio.timeout(within):
        while True:
            state = await fold_run(world.journal, run_id)
            if state.ended:
                return state
            await asyncio.sleep(0.1)


def test_durability_10_a_run_whose_first_append_was_durable_though_nobody_heard_is_taken_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        real = world.journal.create

        async def unheard(*arguments: Any) -> tuple[str, bool]:
            await real(*arguments)
            raise Unavailable("the connection died")

        monkeypatch.setattr(world.journal, "create", unheard)
        assert world.runs is not None
        with pytest.raises(Unavailable):
            await world.runs.submit(wanted("r"), b"")
        assert (await ended(world, "r", LOOK_AFTER + 10)).state is TaskState.COMPLETED

    run_virtual(course())


def test_durability_11_an_owner_that_finds_itself_deposed_stops_and_cancels_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled: list[object] = []
    monkeypatch.setattr(SimTransport, "cancel", lambda self, *arguments: cancelled.append(arguments))

    async def course() -> None:
        world = await calm_world()
        assert world.runs is not None
        await world.runs.submit(wanted("r", ("a", "nobody")), b"")
        await world.journal.leave(world.runs.owner)
        await world.journal.claim("r", "somebody else")
        before = (await fold_run(world.journal, "r")).last_seq
        driver = world.runs._drivers["r"]
        world.runs.deliver("r", Delivery(inp.Cancel("me", "enough")))
        await asyncio.wait_for(driver.finished.wait(), 5)
        assert driver.deposed
        assert (await fold_run(world.journal, "r")).last_seq == before
        assert not cancelled

    run_virtual(course())


def test_durability_14_an_error_of_the_engine_is_caught_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(run: RunState, given: inp.Input, now: float) -> Any:
        if run.submission is not None and run.submission.run_id == "bad":
            raise RuntimeError("planted")
        return engine.decide(run, given, now)

    monkeypatch.setattr(driver_module, "decide", decide)

    async def course() -> None:
        world = await calm_world()
        assert world.runs is not None
        with pytest.raises(RuntimeError):
            await world.runs.submit(wanted("bad"), b"")
        await world.runs.submit(wanted("good"), b"")
        assert (await ended(world, "good", 30)).state is TaskState.COMPLETED

    run_virtual(course())


def test_a_result_that_arrives_before_its_run_is_taken_up_is_neither_acked_nor_discarded() -> None:
    said: list[str] = []

    class Receipt:
        def accept(self) -> None:
            said.append("accepted")

        def discard(self, reason: str) -> None:
            said.append(reason)

    async def course() -> None:
        world = await calm_world()
        result = inp.ResultIn("r.1", 1, TaskState.COMPLETED, None)
        early = Runs(owner="o2", clock=world.clock, journal=world.journal, new_id=lambda: "x")
        early.deliver("r", Delivery(result, Receipt()))
        assert said == []
        early.start(SimTransport(world, early))
        early.deliver("r", Delivery(result, Receipt()))
        assert said == [], "not before it is known what is left to it"
        early.claimed()
        early.deliver("r", Delivery(result, Receipt()))
        assert said == ["UNKNOWN_RUN"]
        await early.stop()

    run_virtual(course())


def test_durability_14_a_run_that_is_taken_up_again_and_again_in_vain_is_quarantined_and_its_agents_keep_their_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        assert world.runs is not None
        await world.runs.submit(wanted("bad", ("nobody",)), b"")
        failures = 0

        def decide(run: RunState, given: inp.Input, now: float) -> Any:
            nonlocal failures
            failures += 1
            raise RuntimeError("planted")

        with monkeypatch.context() as planted:
            planted.setattr(driver_module, "decide", decide)
            world.runs.deliver("bad", Delivery(inp.Tick()))
            await asyncio.sleep(2 * LOOK_AFTER + 1)
            told = Told()
            world.runs.deliver("bad", Delivery(inp.ResultIn("bad.1", 1, TaskState.COMPLETED, None), told))
            assert not told.done
            await asyncio.sleep(20 * LOOK_AFTER)
        assert failures == MAX_STALLED + 1
        state = await fold_run(world.journal, "bad")
        assert state.ended
        assert state.failure is not None
        assert (state.state, state.failure.reason) == (TaskState.FAILED, "QUARANTINED")
        row = await world.journal.run("bad")
        assert row is not None
        assert row.ended_at

    run_virtual(course())


def test_what_callers_ask_of_one_run_at_once_is_bounded_and_what_agents_say_is_never_dropped() -> None:
    async def course() -> None:
        world = await calm_world()
        assert world.runs is not None
        await world.runs.submit(wanted("r", ("nobody",)), b"")
        result = Delivery(inp.ResultIn("r.1", 1, TaskState.COMPLETED, None))
        for _ in range(MAX_INBOX):
            world.runs.deliver("r", result)
        with pytest.raises(ResourceExhausted) as refused:
            world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        assert refused.value.retry_delay
        world.runs.deliver("r", result)
        assert len(world.runs._drivers["r"]._inbox) == MAX_INBOX + 1

    run_virtual(course())


class Told:
    """A receipt that remembers."""

    def __init__(self) -> None:
        self.done = False

    def accept(self) -> None:
        self.done = True

    def discard(self, reason: str) -> None:
        self.done = True


def test_what_comes_while_a_run_writes_its_last_event_is_answered_too() -> None:
    async def course() -> None:
        world = await calm_world()
        assert world.runs is not None
        await world.runs.submit(wanted("r", ("nobody",)), b"")
        first, second = Told(), Told()
        world.runs.deliver("r", Delivery(inp.Cancel("me", ""), first))
        while world.runs._drivers["r"]._inbox:  # noqa: ASYNC110 - one turn of the loop at a time
            await asyncio.sleep(0)
        world.runs.deliver("r", Delivery(inp.Cancel("me", ""), second))  # the append of the first is under way
        await asyncio.sleep(20)
        assert first.done
        assert second.done, "its caller waits until its deadline"

    run_virtual(course())
