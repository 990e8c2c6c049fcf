"""Sessions live as long as their instances, or as the work that is bound to them, and no longer."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Requirement
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.sessions import Limits, SessionPool
from archon_services.orchestrator.sessions.attempts import Attempts
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from tests.fixtures.waiting import eventually

COUNT = 20
MISSED = 0.3


class Heard:
    """An inbox that keeps what comes, and accepts results."""

    def __init__(self) -> None:
        self.given: list[inp.Input] = []

    def deliver(self, run_id: str, delivery: Delivery) -> None:
        self.given.append(delivery.given)
        if delivery.receipt is not None:
            delivery.receipt.accept()

    def progress(self, ref: common_pb2.TaskRef, progress: agent_pb2.Progress) -> None:
        """Nobody watches."""


async def test_dead_sessions_leave_nothing_behind_and_one_with_work_stays_until_it_is_done() -> None:
    release = asyncio.Event()

    async def held(task: TaskContext) -> str:
        await release.wait()
        return "done"

    heard = Heard()
    pool = SessionPool(orchestrator_id="o", inbox=heard, limits=Limits(missed=MISSED))
    before = len(asyncio.all_tasks())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(pool.close)
        agents = [AgentServer("worker", handler=held, settings=AgentSettings()) for _ in range(COUNT)]
        for agent in agents:
            await stack.enter_async_context(agent)
        pool.update([agent.registration for agent in agents])
        sessions = dict(pool._sessions)

        async def connected() -> bool:
            return all(session.connected for session in sessions.values())

        await eventually(connected)
        busy = pool.reserve(Requirement("worker"))
        assert busy is not None
        ref = common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1, epoch=1)
        task = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])
        pool.assign(busy, ref, "worker", task)
        pool.update([])
        assert pool._sessions.keys() == sessions.keys(), "for a while they are believed to come back"

        async def only_the_busy_one_stays() -> bool:
            return list(pool._sessions) == [busy]

        await eventually(only_the_busy_one_stays)
        await asyncio.sleep(2 * MISSED)
        assert list(pool._sessions) == [busy], "it has work"
        release.set()

        async def answered() -> bool:
            return any(isinstance(given, inp.ResultIn) for given in heard.given)

        await eventually(answered)

        async def none_left() -> bool:
            return not pool._sessions

        await eventually(none_left)
    leftover = [task for task in asyncio.all_tasks() if "worker-" in task.get_name()]
    assert not leftover
    assert len(asyncio.all_tasks()) <= before + 1


async def test_what_is_remembered_of_attempts_that_were_lost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.orchestrator.sessions.attempts.MAX_STALE", 2)
    heard = Heard()
    slots = CreditWindow(lambda: None, lambda: 0)
    attempts = Attempts("worker", heard, lambda frame: None, slots, lambda: None, lambda role, capability: ())
    for number in range(5):
        ref = common_pb2.TaskRef(task_id=f"r.{number}", run_id="r", attempt=1, epoch=1)
        attempts.assign(ref, "worker", agent_pb2.AssignTask(input=[common_pb2.Part(text="x")]))
    attempts.lose_all(Unavailable("gone"))
    assert (len(attempts), len(attempts.stale), len(heard.given)) == (0, 2, 5), "each is told as lost all the same"


async def test_an_instance_that_dies_with_work_is_forgotten_once_its_registration_is() -> None:
    async def held(task: TaskContext) -> str:
        await asyncio.sleep(60)
        return "never"

    heard = Heard()
    pool = SessionPool(orchestrator_id="o", inbox=heard)
    agent = AgentServer("worker", handler=held, settings=AgentSettings())
    try:
        await agent.start()
        pool.update([agent.registration])
        session = pool._sessions[agent.instance_id]

        async def connected() -> bool:
            return session.connected

        await eventually(connected)
        assert pool.reserve(Requirement("worker")) == agent.instance_id
        ref = common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1, epoch=1)
        task = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])
        pool.assign(agent.instance_id, ref, "worker", task)
        await agent.stop(0.0)
        pool.update([])

        async def forgotten() -> bool:
            return not pool._sessions and any(isinstance(given, inp.LostIn) for given in heard.given)

        await eventually(forgotten, 10.0)
    finally:
        await agent.stop(0.0)
        await pool.close()
