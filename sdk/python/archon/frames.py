"""Frames that must not get lost: sequences and acks per (task, attempt, direction), batches, and raw decoding.

Both ends of a session use these. A sequenced frame is kept by its sender until the other side acks it, which an
orchestrator does after its append and an agent when it has taken the frame in.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, Generic, TypeVar

from google.protobuf.message import DecodeError

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import FrameTooLarge

FEATURES: Final = (
    "cancel",
    "park",
    "adopt",
    "credit",
    "progress",
    "record",
    "drain",
    "delegate",
    "budget",
    "checkpoint",
)
"""What both ends can do beyond the smallest member."""

SOFT_BATCH_BYTES: Final = 256 * 1024
MAX_FRAME_OVERHEAD: Final = 64
FRAME_HEADER: Final = 6
HOLD: Final = 0.005
"""Seconds between two messages of a stream that is busy."""

F = TypeVar("F", session_pb2.OrchestratorFrame, session_pb2.AgentFrame)


class Verdict(Enum):
    """What to do with a frame that came in."""

    APPLY = "apply"
    DUPLICATE = "duplicate"
    GAP = "gap"


class Channel(Generic[F]):
    """Both directions of one (task, attempt), seen from one end."""

    def __init__(self, ref: common_pb2.TaskRef, *, ack_at_once: bool = True) -> None:
        """`ack_at_once`: what is taken is applied; else the owner calls `apply` when it is durable."""
        self.ref = common_pb2.TaskRef()
        self.ref.CopyFrom(ref)
        self.received = 0
        self.applied = 0
        self.ack_owed = False
        self._ack_at_once = ack_at_once
        self._sent = 0
        self._unacked: deque[tuple[F, int]] = deque()
        self.pending_bytes = 0
        """How much is kept because it isn't acked."""

    def stamp(self, frame: F, *, sequenced: bool = True) -> F:
        """Fills in task, sequence and ack; a sequenced frame is kept until it is acked."""
        frame.task.CopyFrom(self.ref)
        frame.ack = self.applied
        self.ack_owed = False
        if sequenced:
            self._sent += 1
            frame.sequence = self._sent
            size = frame.ByteSize()
            self._unacked.append((frame, size))
            self.pending_bytes += size
        return frame

    def take(self, sequence: int) -> Verdict:
        """Judges an incoming sequence; one to be applied counts as received."""
        if sequence > self.received + 1:
            return Verdict.GAP
        self.ack_owed = True
        if sequence <= self.received:
            return Verdict.DUPLICATE
        self.received = sequence
        if self._ack_at_once:
            self.applied = sequence
        return Verdict.APPLY

    def apply(self, sequence: int) -> None:
        """Everything up to here is durable and may be acked."""
        self.applied = max(self.applied, sequence)
        self.received = max(self.received, sequence)

    def acked(self, sequence: int) -> None:
        """The other side is done with everything up to here."""
        while self._unacked and self._unacked[0][0].sequence <= sequence:
            _, size = self._unacked.popleft()
            self.pending_bytes -= size

    def continue_after(self, sequence: int) -> None:
        """For a new owner, once Adopted says how many frames of the former ones were applied: its own come after."""
        again = [frame for frame, _ in self._unacked]
        self._sent, self.pending_bytes = sequence, 0
        self._unacked.clear()
        for frame in again:
            self.stamp(frame)

    def unacked(self, after: int = 0) -> list[F]:
        """What to send again, in order, with the ack and the epoch as of now."""
        again = [frame for frame, _ in self._unacked if frame.sequence > after]
        for frame in again:
            frame.task.CopyFrom(self.ref)
            frame.ack = self.applied
        return again


class FrameQueue(Generic[F]):
    """What waits to leave on one stream. One writer drains it into one message: alone, a frame leaves at once; on a
    stream that is busy with several tasks frames wait HOLD for company.

    Of frames that may be dropped (`droppable`) only `max_droppable` wait. The others are bounded by their channels and
    credit; a peer that lets `max_waiting` of them wait doesn't read, and loses the stream, not its tasks.
    """

    def __init__(
        self, *, max_droppable: int = 2_000, max_waiting: int = 50_000, may_send: Callable[[], bool] = lambda: True
    ) -> None:
        """`may_send` is asked when a batch is about to leave; where it says no, frames about tasks hold still, and it
        is asked again with the next frame."""
        self.batch_bytes = SOFT_BATCH_BYTES
        """About how large a message may get; lower it where the peer takes less."""
        self.overflowed = False
        self._frames: deque[tuple[F, int, bool]] = deque()
        self._ready = asyncio.Event()
        self._droppable = 0
        self._max_droppable = max_droppable
        self._max_waiting = max_waiting
        self._closed = False
        self._may_send = may_send
        self._dense = False
        self._left_at = 0.0

    def put(self, frame: F, *, droppable: bool = False) -> bool:
        """False where the frame was dropped: too much waits, or the stream has ended."""
        if self._closed or (droppable and self._droppable >= self._max_droppable):
            return False
        if len(self._frames) >= self._max_waiting:
            self.overflowed = True
            self._frames.clear()
            self.close()
            return False
        self._droppable += droppable
        self._frames.append((frame, frame.ByteSize(), droppable))
        self._ready.set()
        return True

    @property
    def closed(self) -> bool:
        """True once nothing more is taken."""
        return self._closed

    def close(self) -> None:
        """The writer ends after what waits."""
        self._closed = True
        self._ready.set()

    async def batch(self) -> list[F]:
        """Waits for frames and takes as many as make a message of about `batch_bytes`; empty: closed.

        What comes alone is taken at once. Where a message carried frames of several tasks the next one waits for
        company: a message costs as much as all that is in it."""
        while not self._frames:
            if self._closed:
                return []
            self._ready.clear()
            await self._ready.wait()
        if self._dense and not self._closed:
            await asyncio.sleep(max(0.0, self._left_at + HOLD - time.monotonic()))
        while not self._may_send():  # last of all: a process may be stopped while it waits
            if aside := self._about_no_task():
                return aside
            if self._closed:
                return []
            self._ready.clear()
            await self._ready.wait()
        taken: list[F] = []
        size = 0
        while self._frames and (not taken or size + self._frames[0][1] <= self.batch_bytes):
            frame, length, droppable = self._frames.popleft()
            self._droppable -= droppable
            taken.append(frame)
            size += length + FRAME_HEADER
        self._dense = bool(taken) and not self._frames and taken[0].task.task_id != taken[-1].task.task_id
        self._left_at = time.monotonic()
        return taken

    def _about_no_task(self) -> list[F]:
        """Takes out what may leave in any case: heartbeats, drain."""
        aside = [frame for frame, _, _ in self._frames if not frame.HasField("task")]
        if aside:
            self._frames = deque(one for one in self._frames if one[0].HasField("task"))
        return aside


def check_size(frame: F, limit: int) -> None:
    """Raises FrameTooLarge where the peer wouldn't take this frame."""
    size = frame.ByteSize()
    if size + MAX_FRAME_OVERHEAD > limit:
        raise FrameTooLarge(
            f"a frame of {size:,} bytes is larger than the {limit:,} that the other side takes; "
            "pass large content by URL",
            metadata={"size": str(size), "limit": str(limit), "task_id": frame.task.task_id},
        )


def split(message: bytes) -> Iterator[bytes]:
    """The frames of a raw SessionRequest or SessionResponse (field 1, repeated), one by one, so that one which can't
    be decoded doesn't take its neighbours with it. Raises DecodeError where not even that can be read."""
    position, end = 0, len(message)
    while position < end:
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise DecodeError("a field without a number")
        if kind == 2:
            length, position = _varint(message, position)
            if position + length > end:
                raise DecodeError("truncated message")
            if number == 1:
                yield message[position : position + length]
            position += length
        elif kind == 0:
            _, position = _varint(message, position)
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
            if position > end:
                raise DecodeError("truncated message")
        else:
            raise DecodeError(f"wire type {kind} can't be read")


def task_of(raw_frame: bytes) -> common_pb2.TaskRef | None:
    """The task that a frame which can't be decoded is about, where at least that can be read."""
    try:
        for part in split(raw_frame):
            return common_pb2.TaskRef.FromString(part)
    except DecodeError:
        return None
    return None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if position >= len(data) or shift > 63:
            raise DecodeError("truncated varint")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
