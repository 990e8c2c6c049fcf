"""One stream to one instance: connects, sends Open and heartbeats, and passes frames on until the stream breaks or the
instance falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc.aio
from google.protobuf.message import DecodeError

from archon import mesh_id, status
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.channel import agent_options, bare_channel
from archon.errors import (
    ArchonError,
    FailedPrecondition,
    MalformedMessage,
    ResourceExhausted,
    SessionNotOpen,
    Unavailable,
    WrongInstance,
)
from archon.frames import (
    BREAKPOINTS,
    FEATURES,
    MAX_FRAMES,
    SOFT_BATCH_BYTES,
    FrameQueue,
    encode,
    has_too_many_frames,
    split,
    task_of,
)
from archon.interceptors.stream_status import StreamStatus
from archon.security.credentials import credentials_for
from archon.security.peer import Peer
from archon.telemetry import metrics
from archon.wire import MAX_CHECKED_BYTES, set_seconds
from archon_services.orchestrator.sessions.heartbeat import Heartbeat, Limits
from archon_services.orchestrator.sessions.in_flight import InFlight
from archon_services.orchestrator.sessions.inbound import within_limit
from archon_services.orchestrator.sessions.message_rate import MessageRate

METHOD: Final = "/archon.api.agent.v1.AgentService/Session"
PROTOCOL: Final = 1
SMALL_MESSAGE: Final = 64 * 1024
"""Bytes of a message up to which its frames count an equal share of it: measuring a frame takes about as long as
decoding it."""

PAUSE: Final = 0.05
"""Seconds after which a stream that is not read looks again."""


class Stream:
    """Is used for one call of `serve`. `peer` is who answers the dial: the agents of the role, or an orchestrator that
    relays the session to an attached instance. `busy` tells whether the instance holds attempts; `on_ready` and
    `on_frame` (with the frame's size) must not block. Nothing is read while `in_flight` is full, after a call of
    `on_full`, and while messages to other agents come faster than `rate` allows."""

    def __init__(
        self,
        *,
        orchestrator_id: str,
        instance_id: str,
        role: str,
        peer: Peer,
        limits: Limits,
        busy: Callable[[], bool],
        on_ready: Callable[[session_pb2.Ready], None],
        on_frame: Callable[[session_pb2.AgentFrame, int], None],
        may_send: Callable[[], bool],
        in_flight: InFlight,
        on_full: Callable[[], None],
        rate: MessageRate,
    ) -> None:
        self.queue = FrameQueue(may_send=may_send)
        self._orchestrator_id = orchestrator_id
        self._instance_id = instance_id
        self._role = role
        self._peer = peer
        self._limits = limits
        self._busy = busy
        self._on_ready = on_ready
        self._on_frame = on_frame
        self._in_flight = in_flight
        self._on_full = on_full
        self._rate = rate
        self._ready = False
        self._heartbeat: Heartbeat | None = None
        self._ended: ArchonError | None = None

    async def serve(self, address: str, *, fresh: bool) -> None:
        """Runs until the stream ends and raises the reason: Silent after silence, Unavailable if the instance cannot be
        reached or ended the stream without an error, WrongInstance if another instance answers."""
        await self._serve(address, fresh=fresh)
        raise self._ended or Unavailable(f"{self._instance_id} ended the session")

    async def _serve(self, address: str, *, fresh: bool) -> None:
        # The channel is closed when it is collected: `close` looks at every task of the process for calls to end.
        channel = bare_channel(address, agent_options(fresh=fresh), self._peer)
        method: Any = channel.stream_stream(METHOD)  # serialised messages, both ways
        credentials = credentials_for(address, self._peer.audience)
        call = method(self._requests(), metadata=(*mesh_id.outgoing(), *credentials.metadata()))
        ended = StreamStatus(call)

        def broken(error: ArchonError) -> None:
            self._ended = error
            call.cancel()

        self._heartbeat = heartbeat = Heartbeat(
            self._instance_id, self._limits, busy=self._busy, send=self._beat, on_broken=broken
        )
        heartbeat.start()
        loop = asyncio.get_running_loop()
        try:
            async for message in call:
                heartbeat.heard_at = loop.time()
                self._message(message)
                while self._in_flight.full:
                    self._on_full()
                    await asyncio.sleep(PAUSE)
                    heartbeat.heard_at = loop.time()  # frames of the instance are not read meanwhile
                while (seconds := self._rate.wait(loop.time())) > 0:
                    await asyncio.sleep(min(seconds, PAUSE))
                    heartbeat.heard_at = loop.time()
        except grpc.aio.AioRpcError as raised:
            if self._ended is not None:
                raise self._ended from None
            if (error := await ended.error(raised)) is not None:
                raise status.from_rpc_error(error) from None
        except asyncio.CancelledError:
            if self._ended is not None and not _cancelled_from_outside():
                raise self._ended from None
            raise
        finally:
            heartbeat.stop()
            self._heartbeat = None
            self.queue.close()
            call.cancel()

    def hurry(self) -> None:
        """The instance has been given an attempt: from now on its silence counts."""
        if self._heartbeat is not None:
            self._heartbeat.hurry()

    def _beat(self, counter: int) -> None:
        self.queue.put(session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=counter)))

    def _open(self) -> session_pb2.OrchestratorFrame:
        limits = self._limits
        request = session_pb2.Open(
            orchestrator_id=self._orchestrator_id,
            instance_id=self._instance_id,
            protocol=PROTOCOL,
            features=(*FEATURES, BREAKPOINTS),
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

    def _message(self, message: bytes) -> None:
        if has_too_many_frames(message):
            self._ended = ResourceExhausted(f"{self._instance_id} sent more than {MAX_FRAMES:,} frames in a message")
            self.queue.close()
            return
        try:
            frames = agent_service_pb2.SessionResponse.FromString(message).frames
            shared = len(message) <= SMALL_MESSAGE
            for frame in frames:
                size = len(message) // len(frames) if shared else frame.ByteSize()
                self._frame(frame if size <= MAX_CHECKED_BYTES else within_limit(frame), size)
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
            self._frame(within_limit(frame), len(raw))

    def _frame(self, frame: session_pb2.AgentFrame, size: int) -> None:
        arm = frame.WhichOneof("frame")
        if arm == "ready":
            if frame.ready.instance_id != self._instance_id or frame.ready.protocol != PROTOCOL:
                self._ended = FailedPrecondition(
                    f"{frame.ready.instance_id} answered with protocol {frame.ready.protocol}",
                    reason="PROTOCOL_MISMATCH",
                )
                self.queue.close()
                return
            if frame.ready.role and frame.ready.role != self._role:
                self._ended = WrongInstance(
                    f"{self._instance_id} is registered for the role {self._role} and serves {frame.ready.role}"
                )
                self.queue.close()
                return
            self._ready = True
            if self._heartbeat is not None:
                self._heartbeat.ready = True
            if frame.ready.max_message_bytes:
                self.queue.batch_bytes = min(SOFT_BATCH_BYTES, frame.ready.max_message_bytes // 2)
            self._on_ready(frame.ready)
        elif arm == "failure" and not self._ready:
            self._ended = status.from_failure(frame.failure)
            self.queue.close()
        elif not self._ready:
            self._refuse(None, SessionNotOpen("the first frame of an agent is Ready"))
        elif arm != "heartbeat":
            if arm == "send_message":
                self._rate.take(asyncio.get_running_loop().time())
            self._on_frame(frame, size)

    def _refuse(self, raw: bytes | None, error: ArchonError) -> None:
        if (recorder := metrics.recorder()) is not None:
            recorder.add(metrics.FRAMES_REFUSED, (error.reason,))
        frame = session_pb2.OrchestratorFrame(failure=status.to_failure(error))
        ref = task_of(raw) if raw is not None else None
        if ref is not None:
            frame.task.CopyFrom(ref)
        self.queue.put(frame)


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
