"""The agents of a run that is run again: one server, with an instance for each role, that sends the frames of a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc, session_pb2
from archon.api.common.v1 import common_pb2
from archon.frames import FEATURES

MAX_TASKS: Final = 10_000
"""Tasks that an instance takes at a time: a recorded run waits for no slot."""

MAX_QUEUED: Final = 100_000
"""Frames that wait for the orchestrator, of one session."""

_UNSEQUENCED: Final = ("ready", "heartbeat", "progress")


class Stage(Protocol):
    """Who tells the attempts what to do."""

    def assigned(self, attempt: PlayedAttempt) -> None:
        """An attempt was assigned."""
        ...

    def cancelled(self, attempt: PlayedAttempt) -> None:
        """The orchestrator asks for the end of an attempt."""
        ...


@dataclass(slots=True)
class PlayedAttempt:
    """An attempt that a played instance holds."""

    role: str
    ref: common_pb2.TaskRef
    task: agent_pb2.AssignTask
    outgoing: asyncio.Queue[session_pb2.AgentFrame]
    ended: bool = False
    _sequence: int = field(default=0)

    def send(self, frame: session_pb2.AgentFrame) -> None:
        """Sends a frame, with the next sequence number; nothing after the end of the attempt."""
        if self.ended:
            return
        kind = frame.WhichOneof("frame")
        self.ended = kind in ("result", "reject")
        sent = session_pb2.AgentFrame()
        sent.CopyFrom(frame)
        sent.task.CopyFrom(self.ref)
        if kind not in _UNSEQUENCED:
            self._sequence += 1
            sent.sequence = self._sequence
        self.outgoing.put_nowait(sent)


class Player(agent_service_pb2_grpc.AgentServiceServicer):
    """Serves the sessions of `instances`, roles by instance id."""

    def __init__(self, instances: Mapping[str, str], stage: Stage) -> None:
        self._instances = instances
        self._stage = stage

    async def Session(  # noqa: N802 - the name of the RPC
        self, request_iterator: AsyncIterator[agent_service_pb2.SessionRequest], context: Any
    ) -> AsyncIterator[agent_service_pb2.SessionResponse]:
        outgoing: asyncio.Queue[session_pb2.AgentFrame] = asyncio.Queue(MAX_QUEUED)
        session = _Session(self._instances, self._stage, outgoing)
        reading = asyncio.create_task(session.read(request_iterator), name="read the session of a played agent")
        try:
            while True:
                getting = asyncio.ensure_future(outgoing.get())
                await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    getting.cancel()
                    return
                frames = [getting.result()]
                while not outgoing.empty() and len(frames) < 100:
                    frames.append(outgoing.get_nowait())
                yield agent_service_pb2.SessionResponse(frames=frames)
        finally:
            reading.cancel()
            await asyncio.wait([reading])


class _Session:
    def __init__(
        self, instances: Mapping[str, str], stage: Stage, outgoing: asyncio.Queue[session_pb2.AgentFrame]
    ) -> None:
        self._instances, self._stage, self._outgoing = instances, stage, outgoing
        self._role = ""
        self._attempts: dict[tuple[str, int], PlayedAttempt] = {}

    async def read(self, requests: AsyncIterator[agent_service_pb2.SessionRequest]) -> None:
        async for message in requests:
            for frame in message.frames:
                self._take(frame)

    def _take(self, frame: session_pb2.OrchestratorFrame) -> None:
        match frame.WhichOneof("frame"):
            case "open":
                self._role = self._instances.get(frame.open.instance_id, "")
                ready = session_pb2.Ready(
                    instance_id=frame.open.instance_id,
                    protocol=1,
                    features=[feature for feature in FEATURES if feature in frame.open.features],
                    max_tasks=MAX_TASKS,
                    max_waiting=MAX_TASKS,
                    role=self._role,
                )
                self._outgoing.put_nowait(session_pb2.AgentFrame(ready=ready))
            case "heartbeat" if frame.heartbeat.counter:
                echo = session_pb2.Heartbeat(echo=frame.heartbeat.counter)
                self._outgoing.put_nowait(session_pb2.AgentFrame(heartbeat=echo))
            case "assign_task":
                self._acknowledge(frame)
                attempt = PlayedAttempt(self._role, frame.task, frame.assign_task, self._outgoing)
                self._attempts[frame.task.task_id, frame.task.attempt] = attempt
                self._stage.assigned(attempt)
            case "cancel_task":
                self._acknowledge(frame)
                if (known := self._attempts.get((frame.task.task_id, frame.task.attempt))) is not None:
                    self._stage.cancelled(known)
            case "adopt_task":
                adopted = session_pb2.Adopted()
                self._outgoing.put_nowait(session_pb2.AgentFrame(task=frame.task, adopted=adopted))
            case _:
                self._acknowledge(frame)

    def _acknowledge(self, frame: session_pb2.OrchestratorFrame) -> None:
        if frame.sequence:
            self._outgoing.put_nowait(session_pb2.AgentFrame(task=frame.task, ack=frame.sequence))
