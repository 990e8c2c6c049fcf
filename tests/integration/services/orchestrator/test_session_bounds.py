"""A session ends when its instance is gone and it has no work."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.sessions import Limits, SessionPool
from archon_services.orchestrator.sessions.attempts import Attempts
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.in_flight import InFlight, ProcessBytes
from tests.fixtures.recording_inbox import RecordingInbox
from tests.fixtures.waiting import eventually

COUNT = 20
MISSED = 0.3


async def test_a_dead_session_ends_when_it_has_no_work() -> None:
    release = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        await release.wait()
        return "done"

    inbox = RecordingInbox()
    pool = SessionPool(orchestrator_id="o", inbox=inbox, limits=Limits(missed=MISSED))
    before = len(asyncio.all_tasks())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(pool.close)
        agents = [AgentServer("worker", handler=wait, settings=AgentSettings()) for _ in range(COUNT)]
        for agent in agents:
            await stack.enter_async_context(agent)
        pool.update([agent.registration for agent in agents])
        sessions = dict(pool._sessions)

        async def connected() -> bool:
            return all(session.connected for session in sessions.values())

        await eventually(connected)
        slot = pool.reserve(Requirement("worker"))
        assert slot is not None
        busy = slot.instance_id
        ref = common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1, epoch=1)
        task = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])
        pool.assign(busy, ref, "worker", task)
        pool.update([], [agent.instance_id for agent in agents])
        assert pool._sessions.keys() == sessions.keys(), "sessions are kept for a grace period"

        async def only_the_busy_session_stays() -> bool:
            return list(pool._sessions) == [busy]

        await eventually(only_the_busy_session_stays)
        await asyncio.sleep(2 * MISSED)
        assert list(pool._sessions) == [busy], "a session with work stays"
        release.set()

        async def answered() -> bool:
            return any(isinstance(delivered, inp.ResultIn) for delivered in inbox.inputs)

        await eventually(answered)

        async def none_left() -> bool:
            return not pool._sessions

        await eventually(none_left)
    leftover = [task for task in asyncio.all_tasks() if "worker-" in task.get_name()]
    assert not leftover
    assert len(asyncio.all_tasks()) <= before + 1


async def test_remembered_lost_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.orchestrator.sessions.attempts.MAX_STALE", 2)
    inbox = RecordingInbox()
    slots = CreditWindow(lambda: None, lambda: 0)
    in_flight = InFlight(ProcessBytes())
    attempts = Attempts(
        "worker-1", "worker", inbox, lambda frame: None, slots, lambda: None, lambda role, capability: (), in_flight
    )
    for number in range(5):
        ref = common_pb2.TaskRef(task_id=f"r.{number}", run_id="r", attempt=1, epoch=1)
        attempts.assign(ref, "worker", agent_pb2.AssignTask(input=[common_pb2.Part(text="x")]))
    attempts.lose_all(Unavailable("gone"))
    assert (len(attempts), len(attempts.stale), len(inbox.inputs)) == (0, 2, 5), "every attempt is reported as lost"


async def test_a_lost_instance_is_forgotten_after_its_registration() -> None:
    async def wait(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return "never"

    inbox = RecordingInbox()
    pool = SessionPool(orchestrator_id="o", inbox=inbox)
    agent = AgentServer("worker", handler=wait, settings=AgentSettings())
    try:
        await agent.start()
        pool.update([agent.registration])
        session = pool._sessions[agent.instance_id]

        async def connected() -> bool:
            return session.connected

        await eventually(connected)
        assert pool.reserve(Requirement("worker")) == (agent.instance_id, None)
        ref = common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1, epoch=1)
        task = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])
        pool.assign(agent.instance_id, ref, "worker", task)
        await agent.stop(0.0)
        pool.update([], [agent.instance_id])

        async def forgotten() -> bool:
            return not pool._sessions and any(isinstance(delivered, inp.LostIn) for delivered in inbox.inputs)

        await eventually(forgotten, 10.0)
    finally:
        await agent.stop(0.0)
        await pool.close()
