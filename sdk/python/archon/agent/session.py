"""The agent's end of one orchestrator's stream. The read loop never waits for a handler."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, Protocol

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from archon import status
from archon.agent.attempt import Attempt, Handler
from archon.agent.attempt_table import AttemptTable
from archon.agent.direct_inbox import DirectInbox
from archon.agent.open_limits import DEFAULT_PARK_TTL, DEFAULT_SILENCE_LIMIT, ShareWindow, park_ttl, silence_limit
from archon.agent.rejections import (
    MAX_ID,
    StreamExhausted,
    StreamRefused,
    check_ref,
    invalid,
    not_yours,
    unknown,
)
from archon.agent.tool_health import ToolHealth
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import (
    ArchonError,
    MalformedMessage,
    NotFound,
    SequenceGap,
    SessionAlreadyOpen,
    SessionNotOpen,
    Unavailable,
    UnknownFrame,
    WrongInstance,
)
from archon.frames import (
    MAX_FRAMES,
    SOFT_BATCH_BYTES,
    SUPERSEDED,
    FrameQueue,
    Verdict,
    has_too_many_frames,
    split,
    task_of,
)
from archon.registry import Registration
from archon.wire import MAX_CHECKED_BYTES, to_seconds

_log = logging.getLogger(__name__)

PROTOCOL: Final = 1

LEAST_MESSAGE_BYTES: Final = 128 * 1024
"""The least that an orchestrator must take in one message: failures and deltas must fit."""

OPEN_TIMEOUT: Final = 10.0
"""Seconds that a stream may stay without Open."""

UNREAD_TIMEOUT: Final = 5.0
"""Seconds that the last frames of a stream may wait to be read."""

MAX_ERRORS: Final = 10_000
"""Errors that may wait on a stream."""

MAX_LOGGED: Final = 200
"""Characters of an orchestrator's text in the log."""


class Agent(Protocol):
    """The part of an agent that its sessions and calls use."""

    role: str
    instance_id: str
    registration: Registration
    attempts: AttemptTable
    tool_health: Callable[[], Iterable[ToolHealth]]
    direct: DirectInbox
    features: tuple[str, ...]

    @property
    def handler(self) -> Handler: ...

    @property
    def bid_handler(self) -> Handler: ...

    @property
    def waiting_share(self) -> int: ...

    @property
    def draining(self) -> bool: ...

    def refusal(self, superseded: Attempt | None, session: AgentSession | None) -> ArchonError | None: ...

    def stream_began(self) -> AgentSession: ...

    def session_opened(self, session: AgentSession) -> int: ...

    def stream_ended(self, session: AgentSession) -> None: ...


class AgentSession:
    """A session, as long as its stream lives. `orchestrator_id` is empty before Open."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._attempts = agent.attempts
        self.queue = FrameQueue()
        self.orchestrator_id = ""
        self.error: ArchonError | None = None
        self.peer_limit = MAX_CHECKED_BYTES
        self.park_ttl = DEFAULT_PARK_TTL
        self.agreed: frozenset[str] = frozenset()
        """The features that both sides support; no other kinds of frames are sent."""
        self.announced: int | None = None
        """The credit that the orchestrator was told, or None if it may have lowered its window since."""
        self.window = ShareWindow()
        self._silence_limit = DEFAULT_SILENCE_LIMIT
        self._complained = False
        self._closed_at: float | None = None
        self.on_stuck: Callable[[], object] = lambda: None
        """Breaks the stream off."""
        self.on_open: Callable[[], object] = lambda: None
        """Called once Open has come."""
        self.attached = False
        """Whether the agent has opened the stream: it may wait for Open as long as it likes."""
        self._began = self._heard = time.monotonic()

    async def read(self, messages: AsyncIterator[bytes]) -> None:
        """Reads until the stream ends or `end` is called."""
        try:
            async for message in messages:
                if self.queue.closed:
                    break
                self._heard = time.monotonic()
                self._message(message)
        except ArchonError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - however a stream breaks, its tasks go on
            _log.info("the stream of orchestrator %r broke: %s", self.orchestrator_id, type(error).__name__)
        finally:
            self.queue.close()

    def _message(self, message: bytes) -> None:
        if has_too_many_frames(message):
            raise StreamExhausted(f"a message has at most {MAX_FRAMES:,} frames")
        try:
            frames = agent_service_pb2.SessionRequest.FromString(message).frames
        except DecodeError:
            self._broken_message(message)
            return
        for frame in frames:
            self._decoded(frame)

    def _broken_message(self, message: bytes) -> None:
        """Decodes frame by frame a message that holds a broken frame, so that its neighbours are served."""
        try:
            for raw in split(message):
                self._frame(raw)
        except DecodeError:
            self._refuse(None, MalformedMessage("the message cannot be split into frames"))

    @property
    def is_silent(self) -> bool:
        """True if the stream was never opened, or nothing came for so long that the orchestrator must be gone."""
        now = time.monotonic()
        if not self.orchestrator_id:
            return not self.attached and now - self._began > OPEN_TIMEOUT
        return now - self._heard > max(10.0, 5 * self._silence_limit)

    def end(self, error: ArchonError | None = None) -> None:
        """Ends the stream after the frames that wait, with an error or with OK."""
        self.error = self.error or error
        self.queue.close()

    def check(self) -> None:
        """Ends a stream that is silent; breaks one off whose last frames are not read. Called from time to time."""
        now = time.monotonic()
        if self.queue.closed:
            self._closed_at = self._closed_at or now
            if now - self._closed_at >= UNREAD_TIMEOUT:
                self.on_stuck()
        elif self.is_silent:
            self.end(Unavailable("no frames came from the orchestrator"))

    def credit(self, max_tasks: int, max_waiting: int) -> None:
        """Announces how many tasks may be in flight on this session, if the number has changed."""
        if max_tasks == self.announced or "credit" not in self.agreed:
            return
        self.announced = max_tasks
        credit = session_pb2.Credit(max_tasks=max_tasks, max_waiting=max_waiting)
        self.queue.put(session_pb2.AgentFrame(credit=credit))

    def drain(self) -> None:
        """Announces that no new tasks are taken."""
        if "drain" in self.agreed:
            self.queue.put(session_pb2.AgentFrame(drain=session_pb2.Drain(reason="the agent is stopping")))

    def _refuse(self, ref: common_pb2.TaskRef | None, error: ArchonError) -> None:
        frame = session_pb2.AgentFrame(failure=status.to_failure(error))
        if ref is not None and len(ref.task_id) <= MAX_ID and len(ref.run_id) <= MAX_ID:
            frame.task.CopyFrom(ref)
        self._put_error(frame)

    def _put_error(self, frame: session_pb2.AgentFrame) -> None:
        if len(self.queue) >= MAX_ERRORS:
            raise StreamExhausted("the orchestrator does not read its stream", retry_delay=1.0)
        self.queue.put(frame)

    def _frame(self, raw: bytes) -> None:
        try:
            frame = session_pb2.OrchestratorFrame.FromString(raw)
        except DecodeError:
            self._refuse(
                task_of(raw), MalformedMessage("the frame is not valid protobuf, or a string in it is not UTF-8")
            )
            return
        self._decoded(frame)

    def _decoded(self, frame: session_pb2.OrchestratorFrame) -> None:
        ref = frame.task if frame.HasField("task") else None
        arm = frame.WhichOneof("frame")
        try:
            if arm == "open":
                self._open(frame.open)
            elif not self.orchestrator_id:
                raise SessionNotOpen("the first frame of a session is Open")
            elif ref is not None:
                self._task_frame(frame, arm)
            else:
                self._session_frame(frame, arm)
        except (WrongInstance, StreamRefused, StreamExhausted):
            raise
        except Exception as error:  # noqa: BLE001 - one frame must not affect its neighbours
            self._refuse(ref, status.as_error(error))

    def _open(self, request: session_pb2.Open) -> None:
        if self.orchestrator_id:
            raise SessionAlreadyOpen("this session is already open")
        if request.instance_id != self._agent.instance_id:
            raise WrongInstance(
                f"this is {self._agent.instance_id}, not {request.instance_id[:MAX_ID]}",
                metadata={"instance_id": self._agent.instance_id},
            )
        if request.protocol < PROTOCOL:
            raise StreamRefused(
                f"this agent speaks protocol {PROTOCOL}, the orchestrator {request.protocol}",
                reason="PROTOCOL_MISMATCH",
            )
        if not 0 < len(request.orchestrator_id) <= MAX_ID:
            raise invalid("open.orchestrator_id", f"must name the orchestrator's process in 1 to {MAX_ID} characters")
        if request.max_message_bytes:
            if request.max_message_bytes < LEAST_MESSAGE_BYTES:
                raise invalid("open.max_message_bytes", f"at least {LEAST_MESSAGE_BYTES:,}")
            self.peer_limit = min(MAX_CHECKED_BYTES, request.max_message_bytes)
            self.queue.batch_bytes = min(SOFT_BATCH_BYTES, self.peer_limit // 2)
        self._silence_limit = silence_limit(request)
        self.park_ttl = park_ttl(request)
        self.orchestrator_id = request.orchestrator_id
        self.agreed = frozenset(self._agent.features).intersection(request.features)
        self.announced = self._agent.session_opened(self)
        ready = session_pb2.Ready(
            instance_id=self._agent.instance_id,
            protocol=PROTOCOL,
            features=sorted(self.agreed),
            max_tasks=self.announced,
            max_waiting=self._agent.waiting_share,
            max_message_bytes=MAX_CHECKED_BYTES,
            role=self._agent.role,
        )
        self.queue.put(session_pb2.AgentFrame(ready=ready))
        if self._agent.draining:
            self.drain()
        self.on_open()

    def _session_frame(self, frame: session_pb2.OrchestratorFrame, arm: str | None) -> None:
        if arm == "heartbeat":
            echo = session_pb2.Heartbeat(echo=frame.heartbeat.counter)
            self.queue.put(session_pb2.AgentFrame(heartbeat=echo), droppable=True)
            self._flush_acks()
        elif arm == "failure":
            self._complain("the orchestrator refused a frame", frame.failure.message)
        elif arm == "drain":
            _log.info("orchestrator %r is draining: %r", self.orchestrator_id, frame.drain.reason[:MAX_LOGGED])
        else:
            raise unknown(arm)

    def _task_frame(self, frame: session_pb2.OrchestratorFrame, arm: str | None) -> None:
        ref = frame.task
        held = self._attempts.newest(ref.task_id)
        if held is None:
            check_ref(ref)
        elif not held.heeds(self.orchestrator_id, ref):
            raise not_yours(ref)
        self._attempts.check_epoch(ref, held)
        attempt = held if held is not None and held.ref.attempt == ref.attempt else None
        if attempt is not None:
            if frame.ack:
                attempt.acked(frame.ack)
            if frame.sequence and arm != "assign_task" and attempt.channel.take(frame.sequence) is not Verdict.APPLY:
                self._out_of_order(attempt, frame, arm)
                return
        self._apply(frame, arm, attempt)
        if attempt is not None and not attempt.working and not attempt.channel.has_unacked:
            self._attempts.drop(attempt)  # its result is acked

    def _apply(self, frame: session_pb2.OrchestratorFrame, arm: str | None, attempt: Attempt | None) -> None:
        match arm:
            case "assign_task":
                self._assign(frame, attempt)
            case "cancel_task":
                if attempt is not None:
                    attempt.cancel(over=frame.cancel_task.reason != SUPERSEDED)
            case "adopt_task":
                self._adopt(frame, attempt)
            case "delegate_result" | "budget_grant" | "input" | "message_result":
                if attempt is not None:
                    attempt.calls.answered(frame)
            case "update_memory":
                if attempt is not None:
                    attempt.updated(frame.update_memory)
            case "message":
                if attempt is not None:
                    attempt.received(frame.message)
            case "discarded":
                if attempt is not None:
                    self._attempts.drop(attempt)
            case "failure":
                self._failure(frame, attempt)
            case None if frame.ack and not frame.sequence and not len(UnknownFieldSet(frame)):
                pass  # only an ack
            case _:
                raise unknown(arm)

    def _out_of_order(self, attempt: Attempt, frame: session_pb2.OrchestratorFrame, arm: str | None) -> None:
        sequence = frame.sequence
        if sequence > attempt.channel.received:
            expected = attempt.channel.received + 1
            raise SequenceGap(
                f"sequence gap: got {sequence}, expected {expected}", metadata={"expected": str(expected)}
            )
        if arm == "cancel_task":
            # Idempotent, and a new owner that counts from 1 must be obeyed.
            attempt.cancel(over=frame.cancel_task.reason != SUPERSEDED)

    def _assign(self, frame: session_pb2.OrchestratorFrame, attempt: Attempt | None) -> None:
        if attempt is not None:
            attempt.channel.take(frame.sequence)  # a copy: the task is in progress
            return
        if frame.sequence > 1:
            raise SequenceGap(f"sequence gap: got {frame.sequence}, expected 1", metadata={"expected": "1"})
        newest = self._attempts.newest(frame.task.task_id)
        if newest is not None and newest.ref.attempt > frame.task.attempt:
            return  # a late frame of a superseded attempt
        if self._attempts.is_over(frame.task):
            return
        refusal = self._agent.refusal(newest, self)
        if refusal is not None:
            self.announced = None  # the orchestrator halves its window
            self._attempts.mark_over(frame.task)
            self._reject(frame.task, refusal, frame.sequence)
            return
        attempt = Attempt(self._attempts, frame.task, self)
        attempt.channel.take(frame.sequence)
        self._attempts.add(attempt)
        is_bid = frame.assign_task.HasField("bid_request")
        handler = self._agent.bid_handler if is_bid else self._agent.handler
        attempt.start(handler, frame.assign_task, self._agent.role, self._agent.registration.stateful)

    def _reject(self, ref: common_pb2.TaskRef, error: ArchonError, ack: int) -> None:
        reject = session_pb2.Reject(failure=status.to_failure(error))
        self._put_error(session_pb2.AgentFrame(task=ref, sequence=1, ack=ack, reject=reject))

    def _adopt(self, frame: session_pb2.OrchestratorFrame, attempt: Attempt | None) -> None:
        if attempt is None:
            not_held = NotFound("this instance does not hold the task", reason="NOT_HELD")
            self._reject(frame.task, not_held, frame.sequence)
            return
        attempt.bind(self, frame.task.epoch)
        if frame.adopt_task.HasField("remaining"):
            attempt.set_remaining(to_seconds(frame.adopt_task.remaining))
        if attempt.working:
            attempt.send_adopted(self)
        attempt.resend(frame.adopt_task.last_applied)
        if attempt.working:
            attempt.send_usage()

    def _failure(self, frame: session_pb2.OrchestratorFrame, attempt: Attempt | None) -> None:
        error = status.from_failure(frame.failure)
        if attempt is not None and isinstance(error, SequenceGap):
            expected = error.metadata.get("expected", "1")
            attempt.resend(int(expected) - 1 if expected.isdecimal() and len(expected) < 20 else 0)
        elif attempt is not None and isinstance(error, UnknownFrame):
            attempt.calls.refuse(error)
        else:
            self._complain(f"the orchestrator refused a frame of task {frame.task.task_id!r}", str(error))

    def _complain(self, what: str, why: str) -> None:
        """Logs an orchestrator's refusal, once per stream: it must not fill the log."""
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        _log.log(level, "%s: %r", what, why[:MAX_LOGGED])

    def _flush_acks(self) -> None:
        """Sends the acks that no other frame has carried since the last heartbeat."""
        for attempt in self._attempts:
            if attempt.session is self and attempt.channel.ack_owed:
                self.queue.put(attempt.channel.stamp(b"", sequenced=False))
