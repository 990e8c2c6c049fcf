"""One stream to one instance: connects, sends Open and heartbeats, and passes frames on until the stream breaks or the
instance falls silent.

Heartbeats in both directions detect a silent instance. If this process itself was suspended, its timer is late, and it
counts the silence from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio
from google.protobuf.message import DecodeError

from archon import status
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.channel import agent_options
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    MalformedMessage,
    SessionNotOpen,
    Unavailable,
)
from archon.frames import FEATURES, SOFT_BATCH_BYTES, FrameQueue, encode, split, task_of
from archon.wire import MAX_CHECKED_BYTES, set_seconds

METHOD: Final = "/archon.api.agent.v1.AgentService/Session"
PROTOCOL: Final = 1
SLIP: Final = 0.5


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of sessions, in seconds."""

    heartbeat_interval: float = 0.5
    silence_limit: float = 2.0
    resume_window: float = 2.0
    open_timeout: float = 1.0
    park_ttl: float = 25 * 3600.0
    missed: float = 15.0
    """How long an instance that is no longer registered keeps its session, even without tasks."""


class Silent(DeadlineExceeded):
    """The instance sent no message for longer than the silence limit."""


class Stream:
    """Is used for one call of `serve`. `on_ready` and `on_frame` must not block."""

    def __init__(
        self,
        *,
        orchestrator_id: str,
        instance_id: str,
        limits: Limits,
        on_ready: Callable[[session_pb2.Ready], None],
        on_frame: Callable[[session_pb2.AgentFrame], None],
        may_send: Callable[[], bool],
    ) -> None:
        self.queue = FrameQueue(may_send=may_send)
        self._orchestrator_id = orchestrator_id
        self._instance_id = instance_id
        self._limits = limits
        self._on_ready = on_ready
        self._on_frame = on_frame
        self._ready = False
        self._silent = False
        self._heard = 0.0
        self._ended: ArchonError | None = None

    async def serve(self, address: str, *, fresh: bool) -> None:
        """Runs until the stream ends and raises the reason: Silent after silence, Unavailable if the instance cannot be
        reached or ended the stream without an error, WrongInstance if another instance answers."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        async with grpc.aio.insecure_channel(address, options=agent_options(fresh=fresh)) as channel:
            method: Any = channel.stream_stream(METHOD)  # serialised messages, both ways
            call = method(self._requests())
            beat = asyncio.create_task(self._beat(call), name=f"beat-{self._instance_id}")
            try:
                async for message in call:
                    self._heard = loop.time()
                    self._message(message)
            except grpc.aio.AioRpcError as error:
                if self._silent:
                    raise self._silence() from None
                raise self._ended or status.from_rpc_error(error) from None
            except asyncio.CancelledError:
                if self._silent and not _cancelled_from_outside():
                    raise self._silence() from None
                if self._ended is not None and not _cancelled_from_outside():
                    raise self._ended from None
                raise
            finally:
                self.queue.close()
                beat.cancel()
                call.cancel()
                await asyncio.wait([beat], timeout=1.0)
        raise self._ended or Unavailable(f"{self._instance_id} ended the session")

    def _silence(self) -> Silent:
        return Silent(f"{self._instance_id} was silent for {self._limits.silence_limit:g} s")

    def _open(self) -> session_pb2.OrchestratorFrame:
        limits = self._limits
        request = session_pb2.Open(
            orchestrator_id=self._orchestrator_id,
            instance_id=self._instance_id,
            protocol=PROTOCOL,
            features=FEATURES,
            max_message_bytes=MAX_CHECKED_BYTES,
        )
        set_seconds(request.heartbeat_interval, limits.heartbeat_interval)
        set_seconds(request.silence_limit, limits.silence_limit)
        set_seconds(request.resume_window, limits.resume_window)
        set_seconds(request.park_ttl, limits.park_ttl)
        return session_pb2.OrchestratorFrame(open=request)

    async def _requests(self) -> AsyncIterator[bytes]:
        opening = encode(self._open())
        yield opening.head + opening.content
        while message := await self.queue.batch():
            yield message

    async def _beat(self, call: Any) -> None:
        loop = asyncio.get_running_loop()
        started = last = loop.time()
        counter = 0
        while True:
            await asyncio.sleep(self._limits.heartbeat_interval)
            now = loop.time()
            if now - last > self._limits.heartbeat_interval + SLIP:
                self._heard = started = now  # this process was suspended
            last = now
            if not self._ready:
                if now - started > self._limits.open_timeout:
                    self._ended = Unavailable(f"{self._instance_id} did not answer Open")
                    call.cancel()
                continue
            if now - self._heard > self._limits.silence_limit:
                self._silent = True
                call.cancel()
                return
            counter += 1
            beat = session_pb2.Heartbeat(counter=counter)
            self.queue.put(session_pb2.OrchestratorFrame(heartbeat=beat))

    def _message(self, message: bytes) -> None:
        try:
            for frame in agent_service_pb2.SessionResponse.FromString(message).frames:
                self._frame(frame)
        except DecodeError:
            self._broken_message(message)

    def _broken_message(self, message: bytes) -> None:
        """Decodes a message frame by frame, because one of its frames cannot be decoded: the others still count."""
        try:
            raw_frames = list(split(message))
        except DecodeError:
            self._refuse(None, MalformedMessage("the message cannot be split into frames"))
            return
        for raw in raw_frames:
            try:
                frame = session_pb2.AgentFrame.FromString(raw)
            except DecodeError:
                self._refuse(raw, MalformedMessage("invalid frame: not an AgentFrame, or text that is not UTF-8"))
                continue
            self._frame(frame)

    def _frame(self, frame: session_pb2.AgentFrame) -> None:
        arm = frame.WhichOneof("frame")
        if arm == "ready":
            if frame.ready.instance_id != self._instance_id or frame.ready.protocol != PROTOCOL:
                self._ended = FailedPrecondition(
                    f"{frame.ready.instance_id} answered with protocol {frame.ready.protocol}",
                    reason="PROTOCOL_MISMATCH",
                )
                self.queue.close()
                return
            self._ready = True
            if frame.ready.max_message_bytes:
                self.queue.batch_bytes = min(SOFT_BATCH_BYTES, frame.ready.max_message_bytes // 2)
            self._on_ready(frame.ready)
        elif arm == "failure" and not self._ready:
            self._ended = status.from_failure(frame.failure)
            self.queue.close()
        elif not self._ready:
            self._refuse(None, SessionNotOpen("the first frame of an agent is Ready"))
        elif arm != "heartbeat":
            self._on_frame(frame)

    def _refuse(self, raw: bytes | None, error: ArchonError) -> None:
        frame = session_pb2.OrchestratorFrame(failure=status.to_failure(error))
        ref = task_of(raw) if raw is not None else None
        if ref is not None:
            frame.task.CopyFrom(ref)
        self.queue.put(frame)


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
