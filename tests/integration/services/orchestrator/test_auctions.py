"""Auctions in a mesh: bids of agents, the award, and the instance that executes the step."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from archon.agent import AgentServer, TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.errors import InvalidArgument
from archon.registry import Capability, Profile
from archon.types import Bid, TaskState
from archon_mesh.engine.plan import SubTask
from archon_mesh.planning import auction
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


def unique(role: str) -> str:
    return f"{role}-{uuid.uuid4().hex[:6]}"


def plan_of(*steps: SubTask) -> str:
    return json.dumps({"goal": "do it", "subtasks": [asdict(step) for step in steps]})


@dataclass
class Coder:
    """An instance that notes which steps it has executed, and which bids it has made."""

    name: str
    bid: Bid | Exception | asyncio.Event | None = None
    worked: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.step_id)
        return self.name

    async def on_bid(self, task: TaskContext) -> Bid | None:
        assert task.bid_request is not None
        self.asked.append(task.bid_request.description)
        if isinstance(self.bid, Exception):
            raise self.bid
        if isinstance(self.bid, asyncio.Event):
            await self.bid.wait()
            return Bid(1, 1, 1)
        return self.bid


async def executed(mesh: Mesh, steps: tuple[SubTask, ...], *roles: str) -> RunHandle:
    handle = await mesh.client.submit("do it", strategy="plan", plan=plan_of(*steps), roles=list(roles), wait=20)
    assert handle.run.state == TaskState.COMPLETED, handle.run.failure
    return handle


def award_in(events: list[run_pb2.RunEvent]) -> Any:
    (resolution,) = [event.result.resolution for event in of(events, "result") if event.result.HasField("resolution")]
    return resolution


async def test_three_instances_bid_by_their_profiles_and_the_best_one_does_the_work(mesh: Mesh, troupe: Troupe) -> None:
    role = unique("coder")
    coders = {quality: Coder(f"coder of {quality}") for quality in (0.5, 0.9, 0.7)}
    agents = {
        quality: await troupe(role, coder.work, profile=Profile(expected_latency_ms=10_000, expected_quality=quality))
        for quality, coder in coders.items()
    }
    steps = auction(SubTask("build", "Build it.", role=role), roles=[role], bidders=3)
    handle = await executed(mesh, steps, role)
    assert answer_text(handle.run) == "coder of 0.9"
    assert [coder.worked for coder in coders.values()] == [[], ["build"], []]
    events = await durable(handle)
    resolution = award_in(events)
    assert resolution.rule == "award"
    assert sorted(vote.bid.quality for vote in resolution.votes) == [0.5, 0.7, 0.9]
    assert {vote.bid.seconds for vote in resolution.votes} == {10}
    dispatched = {event.task.task_id: event.dispatched for event in of(events, "dispatched")}
    assert len({each.instance_id for each in dispatched.values()}) == 3
    assert [*dispatched.values()][-1].instance_id == agents[0.9].instance_id


async def test_functions_bid_for_the_step_that_they_are_shown(mesh: Mesh, troupe: Troupe) -> None:
    cheap, fast = Coder("cheap", Bid(10, 100, 0.5)), Coder("fast", Bid(100, 10, 0.5))
    roles = unique("cheap"), unique("fast")
    for role, coder in zip(roles, (cheap, fast), strict=True):
        await troupe(role, coder.work, on_bid=coder.on_bid)
    handle = await executed(mesh, auction(SubTask("build", "Build it."), roles=roles, time=9), *roles)
    assert answer_text(handle.run) == "fast"
    assert (cheap.asked, fast.asked) == (["Build it."], ["Build it."])
    assert (cheap.worked, fast.worked) == ([], ["build"])


async def test_an_agent_that_does_not_bid_fails_or_is_late_leaves_the_award_to_the_others(
    mesh: Mesh, troupe: Troupe
) -> None:
    coders = [Coder("none"), Coder("broken", InvalidArgument("no")), Coder("late", asyncio.Event())]
    coders.append(Coder("good", Bid(100, 10, 0.1)))
    roles = [unique(coder.name) for coder in coders]
    for role, coder in zip(roles, coders, strict=True):
        await troupe(role, coder.work, on_bid=coder.on_bid)
    handle = await executed(mesh, auction(SubTask("build", "Build it."), roles=roles, seconds=0.5), *roles)
    assert answer_text(handle.run) == "good"
    assert [vote.role for vote in award_in(await durable(handle)).votes] == [roles[-1]]
    assert all(coder.worked == [] for coder in coders[:-1])


async def test_without_a_bid_the_step_goes_to_its_role_as_always(mesh: Mesh, troupe: Troupe) -> None:
    one, other = Coder("one"), Coder("other")
    roles = unique("one"), unique("other")
    for role, coder in zip(roles, (one, other), strict=True):
        await troupe(role, coder.work)
    handle = await executed(mesh, auction(SubTask("build", "Build it.", role=roles[1]), roles=roles), *roles)
    assert answer_text(handle.run) == "other"
    resolution = award_in(await durable(handle))
    assert (resolution.winner_step_id, resolution.reason) == ("", "there is no bid")


async def test_a_bidder_without_the_capability_of_the_step_is_refused(mesh: Mesh, troupe: Troupe) -> None:
    able, unable = Coder("able", Bid(100, 10, 0.1)), Coder("unable", Bid(1, 1, 1))
    roles = unique("able"), unique("unable")
    await troupe(roles[0], able.work, on_bid=able.on_bid, capabilities=[Capability("code.python")])
    await troupe(roles[1], unable.work, on_bid=unable.on_bid)
    steps = auction(SubTask("build", "Build it.", capability="code.python"), roles=roles)
    with pytest.raises(InvalidArgument, match=r"does not have the capability 'code\.python'"):
        await mesh.client.submit("do it", strategy="plan", plan=plan_of(*steps), roles=list(roles))
    assert unable.asked == []


async def test_a_reply_that_is_no_bid_does_not_count(mesh: Mesh, troupe: Troupe) -> None:
    """Of an agent without this library, which answers a request for a bid like any task."""
    honest = Coder("honest", Bid(100, 10, 0.1))
    roles = unique("liar"), unique("honest")

    class Liar(AgentServer):
        @property
        def bid_handler(self) -> Any:
            return lie

    async def lie(task: TaskContext) -> str:
        return json.dumps({"step_id": "build-bid-2", "role": roles[1], "quality": 7, "seconds": -1})

    await troupe(roles[0], lie, kind=Liar)
    await troupe(roles[1], honest.work, on_bid=honest.on_bid)
    handle = await executed(mesh, auction(SubTask("build", "Build it."), roles=roles), *roles)
    assert answer_text(handle.run) == "honest"


async def test_after_a_crash_no_bid_is_asked_again_and_the_award_is_decided_once(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    first, second = Coder("first", Bid(100, 10, 0.9)), Coder("second", Bid(100, 10, 0.1))
    roles = unique("first"), unique("second")

    async def wait(task: TaskContext) -> str:
        first.worked.append(task.step_id)
        await gate.wait()
        return first.name

    async with AsyncExitStack() as stack:
        troupe = Troupe(own_mesh, stack)
        await troupe(roles[0], wait, on_bid=first.on_bid)
        await troupe(roles[1], second.work, on_bid=second.on_bid)
        plan = plan_of(*auction(SubTask("build", "Build it."), roles=roles))
        handle = await own_mesh.client.submit("do it", strategy="plan", plan=plan, roles=list(roles))
        await until(lambda: bool(first.worked))
        await own_mesh.orchestrator.kill()
        await own_mesh.orchestrator.start()
        gate.set()
        assert answer_text(await handle.result(timeout=30)) == "first"
        events = await durable(handle)
    assert len(first.asked) == len(second.asked) == 1
    assert first.worked == ["build"]
    assert award_in(events).winner_step_id == "build-bid-1"


async def test_a_fork_keeps_the_award(mesh: Mesh, troupe: Troupe) -> None:
    first, second = Coder("first", Bid(100, 10, 0.9)), Coder("second", Bid(100, 10, 0.1))
    roles = unique("first"), unique("second")
    for role, coder in zip(roles, (first, second), strict=True):
        await troupe(role, coder.work, on_bid=coder.on_bid)
    work = SubTask("build", "Build it.", role=roles[1])
    handle = await executed(mesh, auction(work, roles=roles), *roles)
    forked = await mesh.client.fork(handle.run_id)
    assert answer_text(await forked.result(timeout=20)) == "first"
    assert first.worked == ["build"]
    assert second.worked == []


async def test_the_time_of_a_step_stands_still_while_a_person_is_asked(mesh: Mesh, troupe: Troupe) -> None:
    role = unique("asking")

    async def ask(task: TaskContext) -> str:
        return await task.ask("Which one?")

    await troupe(role, ask)
    plan = plan_of(SubTask("build", "Build it.", role=role, timeout_seconds=0.5, critical=True))
    handle = await mesh.client.submit("do it", strategy="plan", plan=plan, roles=[role])

    async def asked() -> bool:
        return bool((await mesh.client.get(handle.run_id)).questions)

    await eventually(asked)
    (question,) = (await mesh.client.get(handle.run_id)).questions
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.8):
            await handle.result()
    await mesh.client.respond(handle.run_id, question.input_id, "the blue one")
    assert answer_text(await handle.result(timeout=20)) == "the blue one"
