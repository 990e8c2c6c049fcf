"""Request ids and retention: an id gives the same run while the run is kept, then an error, then a new run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from itertools import count
from typing import Any

import pytest

from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import RequestIdReused, RunExpired, Unavailable, UnknownRun
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.api.converse_stream import ConverseStream
from archon_services.orchestrator.api.servicer import OrchestratorServicer
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.ports import Slot
from archon_services.orchestrator.retention import Retention
from archon_services.orchestrator.retention.sweep import DAY
from archon_services.orchestrator.roles.selection import Participants
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.limits import RunLimits
from archon_services.orchestrator.runs.manager import Runs
from tests.fixtures.orchestrating import commands_of, started


class NoInstances:
    """A transport without instances."""

    def stateful(self, role: str) -> bool:
        return False

    def message_types(self, role: str) -> dict[str, str]:
        return {}

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        return None

    def when_free(self, want: Requirement, run_id: str, wake: Any) -> Any:
        return lambda: None

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        pass


class Graph:
    """A registry with one role; unreachable if `reached` is False."""

    reached = True

    async def choose(self, *arguments: Any, **more: Any) -> Participants:
        if not self.reached:
            raise Unavailable("the registry is away")
        return Participants(("a",), (), (), ())


class Clock(JournalClock):
    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class World:
    """One journal, and an orchestrator on it that can be restarted."""

    def __init__(self) -> None:
        self.journal, self.graph = MemoryJournal(), Graph()
        self.clock = Clock(self.journal)
        self.retention = Retention(self.journal, self.clock, compact_after=10.0, delete_after=100.0)
        self._ids = count(1)
        self.runs: Runs | None = None

    async def start(self) -> None:
        await self.stop()
        self.runs = Runs(
            owner="o",
            clock=self.clock,
            journal=self.journal,
            new_id=lambda: f"r{next(self._ids)}",
            limits=RunLimits(runs=5),
        )
        await started(self.runs, self.journal, NoInstances())
        self.commands = commands_of(self.runs, self.journal, self.graph)
        self.servicer = OrchestratorServicer(self.commands, self.journal, self.runs.watchers)

    async def stop(self) -> None:
        if self.runs is not None:
            await self.runs.stop()

    async def submit(self, text: str = "x") -> pb.SubmitRunResponse:
        request = pb.SubmitRunRequest(request_id="q", roles=["a"], goal=[common_pb2.Part(text=text)])
        return await self.servicer.SubmitRun(request, None)

    async def pass_(self, seconds: float) -> None:
        """Advances the clock, sweeps, and restarts the orchestrator, which has no other state than the journal."""
        self.clock.ahead += seconds
        await self.retention.sweep()
        await self.start()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world in which the run of request id q has ended."""
    world = World()
    await world.start()
    run_id = (await world.submit()).run.run_id
    await world.commands.control.cancel(await world.commands.row(run_id), "enough")
    await world.commands.wait(run_id, 5.0)
    yield world
    await world.stop()


async def test_a_repeated_request_gives_the_same_run_until_deletion(world: World) -> None:
    first = await world.submit()
    for seconds in (1.0, 20.0):
        await world.pass_(seconds)
        again = await world.submit()
        assert again.repeated_before
        assert again.run == first.run


@pytest.mark.parametrize("reached", [True, False], ids=["registry there", "registry away"])
async def test_durability_7_a_request_of_a_deleted_run_has_expired(world: World, reached: bool) -> None:
    await world.pass_(200.0)
    world.graph.reached = reached
    with pytest.raises(RunExpired) as expired:
        await world.submit()
    assert expired.value.metadata == {"request_id": "q", "run_id": "r1"}
    with pytest.raises(RequestIdReused):
        await world.submit("something else")
    with pytest.raises(UnknownRun):
        await world.commands.run("r1")


async def test_durability_7_an_expired_request_id_fails_on_a_stream(world: World) -> None:
    await world.pass_(200.0)

    async def requests() -> AsyncIterator[pb.ConverseRequest]:
        yield pb.ConverseRequest(
            correlation_id="1",
            submit=pb.SubmitRunRequest(request_id="q", roles=["a"], goal=[common_pb2.Part(text="x")]),
        )

    assert world.runs is not None
    async with ConverseStream(world.commands, world.runs.watchers, requests()) as stream:
        response = await stream.next()
    assert response is not None
    (reply,) = pb.ConverseResponse.FromString(response).replies
    assert reply.failure.reason == failure_pb2.ERROR_REASON_RUN_EXPIRED


async def test_durability_7_a_request_id_is_free_a_day_after_deletion(world: World) -> None:
    await world.pass_(200.0)
    await world.pass_(DAY + 1.0)
    fresh = await world.submit("something else")
    assert not fresh.repeated_before
    assert fresh.run.run_id != "r1"
