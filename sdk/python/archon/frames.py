"""Frames of a session: reliable delivery per (task, attempt, direction), batches, and raw decoding.

Both ends of a session use these. A frame is serialised once, when it is stamped or queued; a message is the joined
bytes of its frames. A sequenced frame is kept by its sender until the peer acks it: an orchestrator acks after its
append, an agent as soon as it has taken the frame in.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import FrameTooLarge
from archon.wire import encode_varint

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
    "publish",
    "update_memory",
    "input",
    "messages",
)
"""The features of both ends that the smallest member lacks."""

BREAKPOINTS: Final = "breakpoints"
"""The feature of instances whose runtime asks before it calls tools and models (AssignTask.breakpoints)."""

SUPERSEDED: Final = "superseded"
"""The reason of a CancelTask for an attempt that no longer counts, while its task goes on without it."""

MAX_FRAMES: Final = 10_000
"""Frames of a message. More of them would hold up the other streams of the process."""

SOFT_BATCH_BYTES: Final = 256 * 1024
MAX_FRAME_OVERHEAD: Final = 64
"""Bytes that a frame may take beside its task and its content: sequence, ack and framing."""
HOLD: Final = 0.005
"""Seconds between two messages of a stream that is busy with FULL_LOAD tasks or more."""

FULL_LOAD: Final = 4
"""Tasks in a message from which on the next one waits HOLD. Below, the wait falls with the square of their number."""

ACK_WAIT: Final = 0.02
"""Seconds that acks wait for another frame with which they share a message."""

F = TypeVar("F", session_pb2.OrchestratorFrame, session_pb2.AgentFrame)


class OutgoingFrame(NamedTuple):
    """A serialised frame. `head + content` is the field `frames` (1, repeated) of a SessionRequest or SessionResponse.

    `head` holds the field's key and length and, for a stamped frame, task, sequence and ack. `task_id` is None for a
    frame about the session itself.
    """

    task_id: str | None
    head: bytes
    content: bytes

    @property
    def size(self) -> int:
        """Bytes that the frame takes in a message."""
        return len(self.head) + len(self.content)


def encode(frame: session_pb2.OrchestratorFrame | session_pb2.AgentFrame) -> OutgoingFrame:
    """Serialises a frame that no channel stamps: about the session, or about a task without a sequence of its own."""
    data = frame.SerializeToString()
    return OutgoingFrame(
        frame.task.task_id if frame.HasField("task") else None, b"\x0a" + encode_varint(len(data)), data
    )


def agent_content(arm: str, message: Message) -> bytes:
    """The content of an AgentFrame whose oneof is `arm`, serialised without a copy of `message`."""
    data = message.SerializeToString()
    return _AGENT_KEYS[arm] + encode_varint(len(data)) + data


def orchestrator_content(arm: str, message: Message) -> bytes:
    """The content of an OrchestratorFrame whose oneof is `arm`, serialised without a copy of `message`."""
    data = message.SerializeToString()
    return _ORCHESTRATOR_KEYS[arm] + encode_varint(len(data)) + data


class Verdict(Enum):
    """The action for a received frame."""

    APPLY = "apply"
    DUPLICATE = "duplicate"
    GAP = "gap"


class Channel(Generic[F]):
    """Both directions of one (task, attempt), seen from one end."""

    def __init__(self, ref: common_pb2.TaskRef, *, ack_at_once: bool = True) -> None:
        """With `ack_at_once` a frame counts as applied when it is taken; otherwise when `apply` is called."""
        self.ref = common_pb2.TaskRef()
        self.ref.CopyFrom(ref)
        self._task_id = ref.task_id
        self.received = 0
        self.applied = 0
        self.ack_owed = False
        self._ack_at_once = ack_at_once
        self._sent = 0
        self._unacked: deque[tuple[int, bytes]] = deque()
        self.pending_bytes = 0
        """Bytes of content that are kept until they are acked."""
        self._ref_bytes = b""
        self._ref_epoch = -1

    def stamp(self, content: F | bytes, *, sequenced: bool = True, limit: int | None = None) -> OutgoingFrame:
        """Serialises a frame under the current task reference and ack. A sequenced frame gets the next sequence and is
        kept until it is acked. `content` is a frame without sequence and ack, or the bytes of its oneof.

        Raises FrameTooLarge, before the frame counts, if the frame is larger than `limit` bytes.
        """
        if isinstance(content, bytes):
            data = content
        else:
            content.ClearField("task")  # a reference in the content would override the stamped one
            data = content.SerializeToString()
        if limit is not None:
            self.check_size(data, limit)
        sequence = 0
        if sequenced:
            self._sent = sequence = self._sent + 1
            self._unacked.append((sequence, data))
            self.pending_bytes += len(data)
        self.ack_owed = False
        return self._frame(sequence, data)

    def check_size(self, content: bytes, limit: int) -> None:
        """Raises FrameTooLarge if the peer would not take a frame with this content."""
        size = len(self._task_bytes()) + len(content)
        if size + MAX_FRAME_OVERHEAD > limit:
            raise FrameTooLarge(
                f"a frame of {size:,} bytes is larger than the {limit:,} that the peer takes; "
                "pass large content by URL",
                metadata={"size": str(size), "limit": str(limit), "task_id": self.ref.task_id},
            )

    def take(self, sequence: int) -> Verdict:
        """Judges the sequence of an incoming frame; a frame to be applied counts as received."""
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
        """Marks all frames up to `sequence` as durable: they may be acked."""
        if sequence > self.applied:
            self.applied = sequence
        if sequence > self.received:
            self.received = sequence

    def acked(self, sequence: int) -> None:
        """Forgets the frames up to `sequence`: the peer has applied them."""
        while self._unacked and self._unacked[0][0] <= sequence:
            _, data = self._unacked.popleft()
            self.pending_bytes -= len(data)

    def continue_after(self, sequence: int) -> None:
        """Renumbers the unacked frames to follow `sequence`, the last frame of former owners that the agent applied."""
        self._unacked = deque((sequence + place, data) for place, (_, data) in enumerate(self._unacked, 1))
        self._sent = sequence + len(self._unacked)

    @property
    def has_unacked(self) -> bool:
        """True while the peer has not acked every sequenced frame."""
        return bool(self._unacked)

    def unacked(self, after: int = 0) -> list[OutgoingFrame]:
        """The frames to send again, in order, with the ack and the epoch as of now."""
        return [self._frame(sequence, data) for sequence, data in self._unacked if sequence > after]

    def _frame(self, sequence: int, data: bytes) -> OutgoingFrame:
        stamp = self._task_bytes()
        if sequence:
            stamp += b"\x10" + encode_varint(sequence)
        if self.applied:
            stamp += b"\x18" + encode_varint(self.applied)
        return OutgoingFrame(self._task_id, b"\x0a" + encode_varint(len(stamp) + len(data)) + stamp, data)

    def _task_bytes(self) -> bytes:
        """The field `task` (1); of the reference only the epoch changes."""
        if (epoch := self.ref.epoch) != self._ref_epoch:
            ref = self.ref.SerializeToString()
            self._ref_epoch = epoch
            self._ref_bytes = b"\x0a" + encode_varint(len(ref)) + ref
        return self._ref_bytes


class FrameQueue:
    """The frames that wait to leave on one stream. One writer drains it, message by message: a frame that is alone
    leaves at once, an ack alone after ACK_WAIT seconds at the latest; on a stream that is busy with several tasks
    frames wait up to HOLD seconds for further ones.

    At most `max_droppable` droppable frames (progress) wait. All others are bounded by their channels and credit; a
    peer that lets `max_waiting` frames wait does not read, and loses the stream, not its tasks.
    """

    def __init__(
        self,
        *,
        max_droppable: int = 2_000,
        max_waiting: int = 50_000,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_send` is called when a batch is about to leave. While it returns False frames about tasks are held; it
        is called again when the next frame is queued."""
        self.batch_bytes = SOFT_BATCH_BYTES
        """The soft limit of a message's size; lower it if the peer takes less."""
        self.overflowed = False
        self._frames: deque[tuple[OutgoingFrame, bool]] = deque()
        self._ready = asyncio.Event()
        """Set if a message may leave: a frame that does not wait is there, or the wait of an ack is over."""
        self._ack_timer: asyncio.TimerHandle | None = None
        self._droppable = 0
        self._max_droppable = max_droppable
        self._max_waiting = max_waiting
        self._closed = False
        self._may_send = may_send
        self._hold = 0.0
        self._left_at = 0.0

    def __len__(self) -> int:
        return len(self._frames)

    def put(
        self,
        frame: OutgoingFrame | session_pb2.OrchestratorFrame | session_pb2.AgentFrame,
        *,
        droppable: bool = False,
    ) -> bool:
        """Queues a frame. Returns False if it was dropped: too many frames wait, or the stream has ended."""
        if self._closed or (droppable and self._droppable >= self._max_droppable):
            return False
        if len(self._frames) >= self._max_waiting:
            self.overflowed = True
            self._frames.clear()
            self.close()
            return False
        self._droppable += droppable
        entry = frame if isinstance(frame, OutgoingFrame) else encode(frame)
        self._frames.append((entry, droppable))
        if entry.content:
            self._ready.set()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_WAIT, self._acks_due)
        return True

    def _acks_due(self) -> None:
        self._ack_timer = None
        self._ready.set()

    @property
    def closed(self) -> bool:
        """True once no more frames are taken."""
        return self._closed

    def close(self) -> None:
        """Ends the queue; the writer ends after the frames that wait."""
        self._closed = True
        self._ready.set()

    async def batch(self) -> bytes:
        """Waits for frames and returns a serialised message of about `batch_bytes`; b"" once the queue is closed and
        empty.

        A frame that comes alone is taken at once. After a message with frames of several tasks the next one waits for
        further frames, the longer the more tasks there were: a message costs as much as all frames in it. Acks alone
        and frames about the session do not count. An ack that comes alone waits up to ACK_WAIT for another frame."""
        while not (self._frames and self._ready.is_set()):
            if self._closed and not self._frames:
                return b""
            if self._closed:
                break
            self._ready.clear()
            await self._ready.wait()
        if self._hold and not self._closed:
            await asyncio.sleep(max(0.0, self._left_at + self._hold - time.monotonic()))
        while not self._may_send():  # last of all: a process may be stopped while it waits
            if frames := self._about_no_task():
                return _message(frames)
            if self._closed:
                return b""
            self._ready.clear()
            await self._ready.wait()
        message = self._take()
        self._left_at = time.monotonic()
        return message

    def _take(self) -> bytes:
        """Removes the frames of the next message."""
        waiting = self._frames
        if not waiting:
            return b""
        chunks: list[bytes] = []
        tasks: set[str] = set()
        room = self.batch_bytes
        while waiting and ((room := room - waiting[0][0].size) >= 0 or not chunks):
            frame, droppable = waiting.popleft()
            self._droppable -= droppable
            chunks += frame.head, frame.content
            if frame.content and frame.task_id is not None:  # not an ack alone
                tasks.add(frame.task_id)
        if not waiting:
            self._ready.clear()
            if self._ack_timer is not None:
                self._ack_timer.cancel()
                self._ack_timer = None
        self._hold = 0.0 if waiting or len(tasks) < 2 else HOLD * min(1.0, len(tasks) / FULL_LOAD) ** 2
        return b"".join(chunks)

    def _about_no_task(self) -> list[OutgoingFrame]:
        """Removes the frames that may leave in any case: heartbeats, drain."""
        entries = [entry for entry in self._frames if entry[0].task_id is None]
        if entries:
            self._frames = deque(entry for entry in self._frames if entry[0].task_id is not None)
            self._droppable -= sum(droppable for _, droppable in entries)
        return [frame for frame, _ in entries]


def _message(frames: list[OutgoingFrame]) -> bytes:
    return b"".join(chunk for frame in frames for chunk in (frame.head, frame.content))


def split(message: bytes) -> Iterator[bytes]:
    """Yields the frames of a raw SessionRequest or SessionResponse (field 1, repeated), so that a frame that cannot be
    decoded does not affect its neighbours. Raises DecodeError if the bytes are no message at all."""
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
            raise DecodeError(f"unsupported wire type {kind}")


def has_too_many_frames(message: bytes) -> bool:
    """Whether a message has more than MAX_FRAMES frames, told without decoding them."""
    if len(message) <= 2 * MAX_FRAMES:  # a frame takes two bytes at least
        return False
    try:
        return any(count > MAX_FRAMES for count, _ in enumerate(split(message), 1))
    except DecodeError:
        return False


def task_of(raw_frame: bytes) -> common_pb2.TaskRef | None:
    """The task of a frame that cannot be decoded, or None if not even that can be read."""
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


def _keys(frame: type[Message]) -> dict[str, bytes]:
    """The key (field number, wire type 2) of each arm of a frame's oneof."""
    return {
        field.name: encode_varint(field.number << 3 | 2) for field in frame.DESCRIPTOR.oneofs_by_name["frame"].fields
    }


_AGENT_KEYS: Final = _keys(session_pb2.AgentFrame)
_ORCHESTRATOR_KEYS: Final = _keys(session_pb2.OrchestratorFrame)
