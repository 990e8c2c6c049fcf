"""Heartbeats: an idle instance is asked seldom, its silence is noticed all the same, and many instances open in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.api.common.v1 import common_pb2
from archon.registry import Registration
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Requirement
from archon_services.local_mesh.probe import Probe
from archon_services.orchestrator.sessions import Limits, SessionPool
from archon_services.orchestrator.sessions.dials import MAX_OPENING
from archon_services.testing.movable_clock import MovableClock
from tests.fixtures.recording_inbox import RecordingInbox
from tests.fixtures.waiting import until

LIMITS = Limits(heartbeat_interval=0.5, silence_limit=3.0, idle_interval=5.0, open_timeout=60.0)

REAL_TIME = 1.0
"""Seconds that may pass by themselves while the clock is moved."""


class Instances:
    """One server that answers for every instance; `frozen` ones read and say nothing."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.frozen = False
        self.delay = 0.0
        self.opening = self.most_opening = 0

    async def session(self, incoming: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for raw in incoming:
            for frame in pb.SessionRequest.FromString(raw).frames:
                if frame.HasField("open"):
                    self.opening += 1
                    self.most_opening = max(self.most_opening, self.opening)
                    await asyncio.sleep(self.delay)
                    self.opening -= 1
                    ready = session_pb2.Ready(instance_id=frame.open.instance_id, protocol=1, max_tasks=4)
                    yield _message(session_pb2.AgentFrame(ready=ready))
                elif frame.HasField("heartbeat"):
                    self.heartbeats += 1
                    if not self.frozen:
                        echo = session_pb2.Heartbeat(echo=frame.heartbeat.counter)
                        yield _message(session_pb2.AgentFrame(heartbeat=echo))


def _message(frame: session_pb2.AgentFrame) -> bytes:
    return pb.SessionResponse(frames=[frame]).SerializeToString()


class Connected:
    """A pool with sessions to instances of one server, and the clock of both."""

    def __init__(self, pool: SessionPool, address: str) -> None:
        self.pool = pool
        self._probe = Probe("service", address)
        self._clock = MovableClock()

    async def advance(self, seconds: float) -> None:
        """Moves the clock on, and lets the pool and its instances exchange what comes due."""

        async def exchange() -> None:
            for _ in range(3):
                await self._probe.serves()  # that the server does not serve health is an answer, too

        await self._clock.advance(seconds, exchange)

    async def advance_until(self, condition: Callable[[], bool], limit: float) -> float:
        """Moves the clock on until the condition holds, for `limit` seconds at most. Returns the seconds."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < limit, f"the condition does not hold after {limit:g} s"
            await self.advance(0.25)
        return time.monotonic() - began

    async def close(self) -> None:
        """Ends all sessions."""
        await self.pool.close()
        await self._probe.__aexit__(None, None, None)


@asynccontextmanager
async def connected(
    instances: Instances, count: int, inbox: RecordingInbox, limits: Limits = LIMITS
) -> AsyncIterator[Connected]:
    """Yields sessions to so many instances, as soon as all are connected."""
    server = grpc.aio.server()
    handler: Any = grpc.stream_stream_rpc_method_handler(instances.session)
    service = grpc.method_handlers_generic_handler("archon.api.agent.v1.AgentService", {"Session": handler})
    server.add_generic_rpc_handlers((service,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    pool = SessionPool(orchestrator_id="o", inbox=inbox, limits=limits)
    connected = Connected(pool, address)
    try:
        pool.update(
            [Registration("worker", instance_id=f"worker-{number}", address=address) for number in range(count)]
        )
        await until(lambda: all(session.connected for session in pool._sessions.values()))
        yield connected
    finally:
        await connected.close()
        await server.stop(0)


def assign(pool: SessionPool) -> None:
    slot = pool.reserve(Requirement("worker"))
    assert slot is not None
    ref = common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1, epoch=1)
    pool.assign(slot.instance_id, ref, "worker", agent_pb2.AssignTask(input=[common_pb2.Part(text="x")]))


async def test_an_idle_instance_is_asked_once_per_idle_interval() -> None:
    instances = Instances()
    async with connected(instances, 1, RecordingInbox()) as mesh:
        instances.heartbeats = 0
        await mesh.advance(4 * LIMITS.idle_interval)
        assert 3 <= instances.heartbeats <= 5
        assert mesh.pool.alive("worker-0")
        assign(mesh.pool)
        instances.heartbeats = 0
        await mesh.advance(2 * LIMITS.idle_interval)
        assert instances.heartbeats > 10, "an instance with an attempt is asked at each heartbeat interval"
        assert mesh.pool.alive("worker-0")


async def test_a_silent_idle_instance_is_noticed_and_not_used() -> None:
    instances = Instances()
    async with connected(instances, 1, RecordingInbox()) as mesh:
        instances.frozen = True
        (session,) = mesh.pool._sessions.values()
        limit = LIMITS.idle_interval + 2 * LIMITS.silence_limit + REAL_TIME
        noticed = await mesh.advance_until(lambda: not session.connected, limit)
        assert noticed >= LIMITS.silence_limit - 0.5
        assert mesh.pool.reserve(Requirement("worker")) is None


async def test_a_task_on_a_silent_idle_instance_is_lost_in_time() -> None:
    instances, inbox = Instances(), RecordingInbox()
    limits = replace(LIMITS, idle_interval=60.0)
    async with connected(instances, 1, inbox, limits) as mesh:
        await mesh.advance(2 * limits.silence_limit)  # nothing has been heard for longer than the limit
        assert mesh.pool.alive("worker-0")
        instances.frozen = True
        assign(mesh.pool)
        assert not inbox.inputs

        def lost() -> bool:
            return any(isinstance(delivered, inp.LostIn) for delivered in inbox.inputs)

        noticed = await mesh.advance_until(lost, 2 * limits.silence_limit + REAL_TIME)
        assert noticed > limits.silence_limit - 0.5


async def test_many_instances_open_a_bounded_number_at_a_time() -> None:
    instances = Instances()
    instances.delay = 0.05
    # A stream that was given up would still be counted as opening.
    patient = replace(LIMITS, open_timeout=60.0, silence_limit=60.0)
    async with connected(instances, 3 * MAX_OPENING, RecordingInbox(), patient):
        assert 1 < instances.most_opening <= MAX_OPENING
