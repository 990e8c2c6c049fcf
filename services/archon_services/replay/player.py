"""The agents of a run that is run again: one server, with an instance for each role, that sends the frames of a
script."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unimplemented
from archon.frames import FEATURES

MAX_TASKS: Final = 10_000
"""Tasks that an instance takes at a time: a recorded run waits for no slot."""

MAX_QUEUED: Final = 100_000
"""Frames that wait for the orchestrator, of one session."""

MAX_BATCH: Final = 100
"""Frames of a message."""


Outgoing = asyncio.Queue[session_pb2.AgentFrame | None]
"""Frames to the orchestrator; None at the end of the session."""


class Stage(Protocol):
    """Directs the attempts."""

    def assigned(self, attempt: PlayedAttempt) -> None:
        """Called when the orchestrator assigns an attempt, before it is answered."""
        ...

    def cancelled(self, attempt: PlayedAttempt) -> None:
        """Called when the orchestrator cancels an attempt."""
        ...


class Player(agent_service_pb2_grpc.AgentServiceServicer):
    """Serves the sessions of `instances`, roles by instance id. An instance takes no task before `allow`: attempts are
    dispatched when the script says so, and not as soon as an instance is free."""

    def __init__(self, instances: Mapping[str, str], stage: Stage) -> None:
        self._instances = instances
        self._stage = stage
        self._windows: dict[str, int] = defaultdict(int)
        """Tasks that the instance of a role takes at a time."""
        self._sessions: dict[str, Outgoing] = {}

    def allow(self, role: str, tasks: int = 1) -> None:
        """Has the instance of a role take so many tasks more, or fewer."""
        self._windows[role] += tasks
        if (outgoing := self._sessions.get(role)) is not None:
            outgoing.put_nowait(session_pb2.AgentFrame(credit=session_pb2.Credit(max_tasks=self._windows[role])))

    async def Describe(self, request: Any, context: Any) -> agent_service_pb2.DescribeResponse:
        raise Unimplemented("a played agent serves sessions alone")

    def RunTask(self, request: Any, context: Any) -> AsyncIterator[agent_service_pb2.RunTaskResponse]:
        raise Unimplemented("a played agent serves sessions alone")

    async def Deliver(self, request: Any, context: Any) -> agent_service_pb2.DeliverResponse:
        raise Unimplemented("a played agent serves sessions alone")

    async def Session(
        self, request_iterator: AsyncIterator[agent_service_pb2.SessionRequest], context: Any
    ) -> AsyncIterator[agent_service_pb2.SessionResponse]:
        outgoing: Outgoing = asyncio.Queue(MAX_QUEUED)
        reading = asyncio.create_task(self._read(request_iterator, outgoing), name="read a session of a played agent")
        reading.add_done_callback(lambda _: outgoing.put_nowait(None))
        try:
            is_over = False
            while not is_over:
                frames = [await outgoing.get()]
                while len(frames) < MAX_BATCH and not outgoing.empty():
                    frames.append(outgoing.get_nowait())
                is_over = None in frames
                if sent := [frame for frame in frames if frame is not None]:
                    yield agent_service_pb2.SessionResponse(frames=sent)
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _read(
        self,
        requests: AsyncIterator[agent_service_pb2.SessionRequest],
        outgoing: Outgoing,
    ) -> None:
        attempts: dict[tuple[str, int], PlayedAttempt] = {}
        role = ""
        async for message in requests:
            for frame in message.frames:
                match frame.WhichOneof("frame"):
                    case "open":
                        role = self._instances.get(frame.open.instance_id, "")
                        self._sessions[role] = outgoing
                        outgoing.put_nowait(session_pb2.AgentFrame(ready=self._ready(frame.open, role)))
                    case "heartbeat" if frame.heartbeat.counter:
                        echo = session_pb2.Heartbeat(echo=frame.heartbeat.counter)
                        outgoing.put_nowait(session_pb2.AgentFrame(heartbeat=echo))
                    case "assign_task":
                        attempt = PlayedAttempt(self, role, frame.task, frame.assign_task, outgoing)
                        attempts[frame.task.task_id, frame.task.attempt] = attempt
                        self._stage.assigned(attempt)
                    case "cancel_task":
                        if (known := attempts.get((frame.task.task_id, frame.task.attempt))) is not None:
                            self._stage.cancelled(known)
                    case "adopt_task":
                        outgoing.put_nowait(session_pb2.AgentFrame(task=frame.task, adopted=session_pb2.Adopted()))
                if frame.sequence:
                    outgoing.put_nowait(session_pb2.AgentFrame(task=frame.task, ack=frame.sequence))

    def _ready(self, opened: session_pb2.Open, role: str) -> session_pb2.Ready:
        """Without room for tasks that only wait: an attempt has its slot to its end."""
        return session_pb2.Ready(
            instance_id=opened.instance_id,
            protocol=1,
            features=[feature for feature in FEATURES if feature in opened.features],
            max_tasks=self._windows[role],
            role=role,
        )


@dataclass(slots=True)
class PlayedAttempt:
    """An attempt that a played instance holds."""

    player: Player
    role: str
    ref: common_pb2.TaskRef
    task: agent_pb2.AssignTask
    outgoing: Outgoing
    ended: bool = False
    lost: bool = False
    """Whether it has ended as lost: a result may still come, too late."""
    _sequence: int = 0

    def send(self, frame: session_pb2.AgentFrame, *, again: bool = False) -> None:
        """Sends a frame, with the next sequence number; nothing after the result of the attempt, but that `again`. Its
        slot goes with its end."""
        if self.ended and not self.lost and not again:
            return
        kind = frame.WhichOneof("frame")
        if kind in ("result", "reject"):
            if not self.ended:
                self.player.allow(self.role, -1)
            self.ended, self.lost = True, kind == "reject"
        sent = session_pb2.AgentFrame()
        sent.CopyFrom(frame)
        sent.task.CopyFrom(self.ref)
        if kind != "progress":
            self._sequence += 1
            sent.sequence = self._sequence
        self.outgoing.put_nowait(sent)
