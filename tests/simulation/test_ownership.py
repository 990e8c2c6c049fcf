"""Ownership of runs in virtual time: each test plants a single fault."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import pytest

from archon.agent import TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import Internal, ResourceExhausted, Unavailable
from archon_mesh.engine import RunState
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import engine
from archon_mesh.engine.types import Submission, TaskState
from archon_services.orchestrator.journal import MemoryJournal, Step, StepResult
from archon_services.orchestrator.ownership import OwnershipLimits
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import MAX_STALLED, Runs
from archon_services.orchestrator.runs.run_inbox import MAX_INBOX
from archon_services.orchestrator.runs.states.load import load_run
from archon_services.orchestrator.runs.turn import decider
from archon_services.orchestrator.sessions import SessionPool
from tests.simulation.agents import SimAgent
from tests.simulation.faults import Dice
from tests.simulation.loop import VirtualLoop
from tests.simulation.loop import run_virtual as run_loop
from tests.simulation.patched import machine
from tests.simulation.world import World

RECLAIM_INTERVAL = OwnershipLimits().reclaim_interval


def run_virtual(course: Coroutine[Any, Any, None]) -> None:
    """Runs a course in a world of one agent and one replica without random faults."""

    async def within() -> None:
        dice = Dice(1)
        dice.calm = True
        _WORLD.append(World(dice, cast(VirtualLoop, asyncio.get_running_loop())))
        world = _WORLD[-1]
        async with machine(
            dice.random, world.network.stream, world.wall, world.check.executed, lambda run_id, error: None
        ):
            await course

    run_loop(within())


_WORLD: list[World] = []


async def calm_world() -> World:
    """Returns the world of the calling course, with its agent and its replica started."""
    world = _WORLD.pop()
    world.add_agent("a")
    await world.start_replica(0)
    return world


async def submit(world: World, submission: Submission) -> None:
    """Submits a run within the replica's process."""
    await world.replicas[0].ask(world.runs.submit(submission, b""))


def submission(run_id: str, roles: tuple[str, ...] = ("a",)) -> Submission:
    """Returns a submission of these roles."""
    return Submission(run_id, "default", run_id, "", "pipeline", roles, (), 60.0, run_pb2.Submitted())


async def ended(world: World, run_id: str, within: float) -> RunState:
    """Waits until the run has ended and returns its state. Raises TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        while True:
            state = await load_run(world.store, run_id)
            if state.ended:
                return state
            await asyncio.sleep(0.1)


def test_durability_10_a_run_with_an_unanswered_append_completes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        real = world.store.commit

        def unanswered(steps: Sequence[Step]) -> list[StepResult]:
            results = real(steps)
            return [
                Unavailable("the connection died") if step.new else result
                for step, result in zip(steps, results, strict=True)
            ]

        monkeypatch.setattr(world.store, "commit", unanswered)
        with pytest.raises(Unavailable):
            await submit(world, submission("r"))
        assert (await ended(world, "r", RECLAIM_INTERVAL + 10)).state is TaskState.COMPLETED

    run_virtual(course())


def test_durability_11_a_deposed_owner_stops_and_cancels_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled: list[object] = []
    monkeypatch.setattr(SessionPool, "cancel", lambda self, *arguments: cancelled.append(arguments))

    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("a", "absent")))
        await world.store.leave(world.runs.owner)
        await world.store.claim("r", "another owner")
        before = (await load_run(world.store, "r")).last_seq
        driver = world.runs._drivers["r"]
        world.runs.deliver("r", Delivery(inp.Cancel("me", "enough")))
        await asyncio.wait_for(driver.finished(), 5)
        assert driver.deposed
        assert (await load_run(world.store, "r")).last_seq == before
        assert not cancelled

    run_virtual(course())


def test_durability_14_an_error_of_the_engine_is_caught_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(run: RunState, run_input: inp.Input, now: float) -> Any:
        if run.submission is not None and run.submission.run_id == "bad":
            raise RuntimeError("planted")
        return engine.decide(run, run_input, now)

    monkeypatch.setattr(decider, "decide", decide)

    async def course() -> None:
        world = await calm_world()
        with pytest.raises(Internal):
            await submit(world, submission("bad"))
        await submit(world, submission("good"))
        assert (await ended(world, "good", 30)).state is TaskState.COMPLETED

    run_virtual(course())


def test_a_result_before_its_claim_is_not_acked_or_discarded() -> None:
    outcomes: list[str] = []

    class Receipt:
        def accept(self, epoch: int = 0) -> None:
            outcomes.append("accepted")

        def discard(self, reason: str, epoch: int = 0) -> None:
            outcomes.append(reason)

    async def course() -> None:
        world = await calm_world()
        result = inp.ResultIn("r.1", 1, TaskState.COMPLETED, None)
        journal = MemoryJournal()
        early = Runs(owner="o2", clock=world.runs._clock, journal=journal, new_id=lambda: "x")
        early.deliver("r", Delivery(result, Receipt()))
        assert outcomes == []
        early.start(world.replicas[0].pool)
        early.deliver("r", Delivery(result, Receipt()))
        assert outcomes == [], "not before the replica has claimed its runs"
        early.claimed()
        early.deliver("r", Delivery(result, Receipt()))
        assert outcomes == ["UNKNOWN_RUN"]
        await early.stop()

    run_virtual(course())


def test_durability_14_a_run_claimed_in_vain_is_quarantined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("bad", ("absent",)))
        failures = 0

        def decide(run: RunState, run_input: inp.Input, now: float) -> Any:
            nonlocal failures
            failures += 1
            raise RuntimeError("planted")

        with monkeypatch.context() as planted:
            planted.setattr(decider, "decide", decide)
            world.runs.deliver("bad", Delivery(inp.Tick()))
            await asyncio.sleep(2 * RECLAIM_INTERVAL + 1)
            receipt = RecordingReceipt()
            world.runs.deliver("bad", Delivery(inp.ResultIn("bad.1", 1, TaskState.COMPLETED, None), receipt))
            assert not receipt.done
            await asyncio.sleep(20 * RECLAIM_INTERVAL)
        assert failures == MAX_STALLED + 1
        state = await load_run(world.store, "bad")
        assert state.ended
        assert state.failure is not None
        assert (state.state, state.failure.reason) == (TaskState.FAILED, "QUARANTINED")
        row = await world.store.run("bad")
        assert row is not None
        assert row.ended_at

    run_virtual(course())


def test_a_quarantined_run_frees_the_slot_of_an_attempt_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def course() -> None:
        work = SimAgent._work

        async def ask(agent: SimAgent, task: TaskContext) -> object:
            return await task.ask("which one?") if task.run_id == "bad" else await work(agent, task)

        with monkeypatch.context() as asking:
            asking.setattr(SimAgent, "_work", ask)
            world = await calm_world()
            await submit(world, submission("bad"))
            await asyncio.sleep(3)
        assert (await load_run(world.store, "bad")).tasks["bad.1"].state is TaskState.INPUT_REQUIRED

        def decide(run: RunState, run_input: inp.Input, now: float) -> Any:
            raise RuntimeError("planted")

        with monkeypatch.context() as planted:
            planted.setattr(decider, "decide", decide)
            world.runs.deliver("bad", Delivery(inp.Tick()))
            assert (await ended(world, "bad", 20 * RECLAIM_INTERVAL)).failure is not None
        await asyncio.sleep(0.5)
        assert not [attempt for agent in world.agents.values() for attempt in agent.server.attempts]
        await submit(world, submission("next"))
        assert (await ended(world, "next", 5)).state is TaskState.COMPLETED

    run_virtual(course())


def test_commands_of_a_run_are_bounded_and_frames_are_not() -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        result = Delivery(inp.ResultIn("r.1", 1, TaskState.COMPLETED, None))
        for _ in range(MAX_INBOX):
            world.runs.deliver("r", result)
        with pytest.raises(ResourceExhausted) as refused:
            world.runs.deliver("r", Delivery(inp.Cancel("me", "")))
        assert refused.value.retry_delay
        world.runs.deliver("r", result)
        assert len(world.runs._drivers["r"]._inbox) == MAX_INBOX + 1

    run_virtual(course())


class RecordingReceipt:
    """A receipt that records its outcome."""

    def __init__(self) -> None:
        self.done = False
        self.discarded = ""

    def accept(self, epoch: int = 0) -> None:
        self.done = True

    def discard(self, reason: str, epoch: int = 0) -> None:
        self.done, self.discarded = True, reason


def test_a_command_during_the_last_append_is_answered_too() -> None:
    async def course() -> None:
        world = await calm_world()
        await submit(world, submission("r", ("absent",)))
        first, second = RecordingReceipt(), RecordingReceipt()
        world.runs.deliver("r", Delivery(inp.Cancel("me", ""), first))
        while world.runs._drivers["r"]._inbox:  # noqa: ASYNC110 - waits for a turn of the event loop
            await asyncio.sleep(0)
        world.runs.deliver("r", Delivery(inp.Cancel("me", ""), second))  # the append of the first is in progress
        await asyncio.sleep(20)
        assert first.done
        assert second.done, "otherwise its caller waits until the deadline"

    run_virtual(course())
