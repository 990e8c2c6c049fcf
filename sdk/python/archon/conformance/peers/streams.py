"""The orchestrator's end of one stream of a subject: dialled, or attached."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio

from archon import status
from archon.api.agent.v1 import agent_service_pb2
from archon.conformance.values import to_value
from archon.errors import ArchonError
from archon.interceptors.stream_status import StreamStatus

SESSION: Final = "/archon.api.agent.v1.AgentService/Session"
MAX_FRAMES: Final = 200_000
MAX_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes of a message, if Open sets no limit."""


@dataclass(slots=True)
class Received:
    """A frame of the subject: when it came, its arm (`ack` without one), and its fields."""

    at: float
    arm: str
    frame: dict[str, Any]
    message: int
    taken: bool = False


@dataclass
class Stream(ABC):
    """One stream. `frames` are all that came, in order; `error` is the status with which the agent ended it."""

    name: str
    frames: list[Received] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Bytes of each message that came."""
    limit: int = MAX_MESSAGE
    """Bytes that a message may have, as Open has said."""
    over: bool = False
    error: ArchonError | None = None
    is_cancelled: bool = False
    """Whether the agent has broken an attached stream off."""
    headers: dict[str, str] = field(default_factory=dict)
    """The metadata of an attached stream."""
    began: float = field(default_factory=time.monotonic)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take_message(self, message: bytes) -> None:
        """Notes the frames of a message. Bytes that are no message end the stream for the scenario."""
        now = time.monotonic()
        self.sizes.append(len(message))
        decoded = agent_service_pb2.SessionResponse.FromString(message)
        for each in decoded.frames:
            if len(self.frames) < MAX_FRAMES:
                arm = each.WhichOneof("frame") or "ack"
                self.frames.append(Received(now, arm, to_value(each), len(self.sizes) - 1))
        self.changed.set()

    def end(self) -> None:
        """Ends the stream for the scenario: no frame comes any more."""
        self.over = True
        self.changed.set()

    @abstractmethod
    async def send(self, message: bytes) -> None:
        """Sends the bytes of one message."""

    @abstractmethod
    async def half_close(self) -> None:
        """Ends the stream as an orchestrator that leaves does."""

    @abstractmethod
    async def break_off(self) -> None:
        """Breaks the stream as a connection that is lost does. Idempotent."""


class DialledStream(Stream):
    """A stream that the orchestrator has opened at the agent."""

    def __init__(self, name: str, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(name)
        self._channel = channel
        self._call: Any = channel.stream_stream(SESSION)(metadata=metadata)
        self._ended = StreamStatus(self._call)
        self._reader = asyncio.create_task(self._read(), name="conformance: read a session")

    async def _read(self) -> None:
        try:
            async for message in self._call:
                self.take_message(message)
        except grpc.aio.AioRpcError as raised:
            error = await self._ended.error(raised)
            self.error = status.from_rpc_error(error) if error is not None else None
        finally:
            self.end()

    async def send(self, message: bytes) -> None:
        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the agent has ended the stream: a scenario that minds sees its end

    async def half_close(self) -> None:
        await self._call.done_writing()

    async def break_off(self) -> None:
        self._call.cancel()
        self._reader.cancel()
        await asyncio.wait([self._reader], timeout=2.0)
        await self._channel.close()


class AttachedStream(Stream):
    """A stream that the agent has opened at the orchestrator."""

    def __init__(self, name: str, context: Any) -> None:
        super().__init__(name)
        self._context = context
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue(10_000)
        self._status = asyncio.Lock()
        """Held while the call starts or ends: gRPC loses a status that is sent beside the initial metadata."""
        self.is_broken = False
        self.headers = {key: text for key, text in context.invocation_metadata() or () if isinstance(text, str)}

    async def serve(self, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The handler of the call."""
        reader = asyncio.create_task(self._read(messages), name="conformance: read an attached stream")
        try:
            while (message := await self._outgoing.get()) is not None:
                yield message
            if self.is_broken:
                async with self._status:
                    await self._context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is lost")
        finally:
            self.is_cancelled = not self.over
            self.end()
            reader.cancel()

    async def _read(self, messages: AsyncIterator[bytes]) -> None:
        async for message in messages:
            if not self.sizes:
                async with self._status:
                    if not self.is_broken:
                        await self._context.send_initial_metadata(())  # the agent is registered
            self.take_message(message)
        self.end()
        await self._outgoing.put(None)

    async def send(self, message: bytes) -> None:
        await self._outgoing.put(message)

    async def half_close(self) -> None:
        await self._outgoing.put(None)

    async def break_off(self) -> None:
        self.is_broken = True
        await self._outgoing.put(None)
