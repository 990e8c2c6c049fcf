"""One orchestrator's stream, seen from the agent. The read loop answers and starts; it never waits for a handler."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from archon import status
from archon.agent.attempt import HeldTask
from archon.agent.attempt_table import TaskTable
from archon.agent.rejections import Ending, invalid, unknown
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import (
    ArchonError,
    MalformedMessage,
    NotFound,
    SequenceGap,
    SessionAlreadyOpen,
    SessionNotOpen,
    UnknownFrame,
    WrongInstance,
)
from archon.frames import FEATURES, SOFT_BATCH_BYTES, FrameQueue, Verdict, split, task_of
from archon.wire import MAX_CHECKED_BYTES, to_seconds

if TYPE_CHECKING:
    from archon.agent.server import AgentServer

_log = logging.getLogger(__name__)

PROTOCOL: Final = 1

LEAST_MESSAGE_BYTES: Final = 128 * 1024
"""No orchestrator may take less in one message: failures and deltas must fit."""

DEFAULT_PARK_TTL: Final = 25 * 3600.0
"""Seconds, where Open says nothing: longer than any run."""

OPEN_TIMEOUT: Final = 10.0
"""Seconds that a stream may be without Open."""


class AgentSession:
    """Lives as long as its stream. `orchestrator_id` is empty before Open."""

    def __init__(self, agent: AgentServer, tasks: TaskTable) -> None:
        self._agent = agent
        self._tasks = tasks
        self.queue = FrameQueue()
        self.orchestrator_id = ""
        self.error: ArchonError | None = None
        self.peer_limit = MAX_CHECKED_BYTES
        self.park_ttl = DEFAULT_PARK_TTL
        self.agreed: frozenset[str] = frozenset()
        """The features that both sides speak; no other kinds of frames are sent."""
        self.told: int | None = None
        """The window as the orchestrator knows it; None: it may have made it smaller."""
        self._silence_limit = 2.0
        self._began = self._heard = time.monotonic()

    async def read(self, messages: AsyncIterator[bytes]) -> None:
        """Until the stream ends, or `end` is called."""
        try:
            async for message in messages:
                if self.queue.closed:
                    break
                self._heard = time.monotonic()
                self._message(message)
        except ArchonError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - however a stream breaks, its tasks go on
            _log.info("the stream of %s broke: %s", self.orchestrator_id or "nobody", type(error).__name__)
        finally:
            self.queue.close()

    def _message(self, message: bytes) -> None:
        try:
            frames = agent_service_pb2.SessionRequest.FromString(message).frames
        except DecodeError:
            self._broken_message(message)
            return
        for frame in frames:
            self._decoded(frame)

    def _broken_message(self, message: bytes) -> None:
        """Something in it can't be decoded: frame by frame, so that its neighbours are served."""
        try:
            for raw in split(message):
                self._frame(raw)
        except DecodeError:
            self._refuse(None, MalformedMessage("the message can't be taken apart into frames"))

    @property
    def is_silent(self) -> bool:
        """True where it was never opened, or nothing was heard for so long that the orchestrator is gone."""
        now = time.monotonic()
        if not self.orchestrator_id:
            return now - self._began > OPEN_TIMEOUT
        return now - self._heard > max(10.0, 5 * self._silence_limit)

    def end(self, error: ArchonError | None = None) -> None:
        """Ends the stream after what waits, with this error or with OK."""
        self.error = self.error or error
        self.queue.close()

    def credit(self, max_tasks: int, max_waiting: int) -> None:
        """Says how many tasks may be in flight here, where that is news."""
        if max_tasks == self.told or "credit" not in self.agreed:
            return
        self.told = max_tasks
        credit = session_pb2.Credit(max_tasks=max_tasks, max_waiting=max_waiting)
        self.queue.put(session_pb2.AgentFrame(credit=credit))

    def drain(self) -> None:
        """Says that nothing new is taken."""
        if "drain" in self.agreed:
            self.queue.put(session_pb2.AgentFrame(drain=session_pb2.Drain(reason="the agent is stopping")))

    def _refuse(self, ref: common_pb2.TaskRef | None, error: ArchonError) -> None:
        frame = session_pb2.AgentFrame(failure=status.to_failure(error))
        if ref is not None:
            frame.task.CopyFrom(ref)
        self.queue.put(frame)

    def _frame(self, raw: bytes) -> None:
        try:
            frame = session_pb2.OrchestratorFrame.FromString(raw)
        except DecodeError:
            self._refuse(task_of(raw), MalformedMessage("a frame is no frame of the contract, or not UTF-8"))
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
        except (WrongInstance, Ending):
            raise
        except Exception as error:  # noqa: BLE001 - one frame never kills its neighbours
            self._refuse(ref, status.as_error(error))

    def _open(self, said: session_pb2.Open) -> None:
        if self.orchestrator_id:
            raise SessionAlreadyOpen("this session is open already")
        if said.instance_id != self._agent.instance_id:
            raise WrongInstance(
                f"this is {self._agent.instance_id}, not {said.instance_id}",
                metadata={"instance_id": self._agent.instance_id},
            )
        if said.protocol < PROTOCOL:
            raise Ending(
                f"this agent speaks protocol {PROTOCOL}, the orchestrator {said.protocol}",
                reason="PROTOCOL_MISMATCH",
            )
        if not said.orchestrator_id:
            raise invalid("open.orchestrator_id", "names the orchestrator's process")
        if said.max_message_bytes:
            if said.max_message_bytes < LEAST_MESSAGE_BYTES:
                raise invalid("open.max_message_bytes", f"at least {LEAST_MESSAGE_BYTES:,}")
            self.peer_limit = min(MAX_CHECKED_BYTES, said.max_message_bytes)
            self.queue.batch_bytes = min(SOFT_BATCH_BYTES, self.peer_limit // 2)
        if said.HasField("silence_limit"):
            self._silence_limit = to_seconds(said.silence_limit)
        if said.HasField("park_ttl"):
            self.park_ttl = to_seconds(said.park_ttl)
        self.orchestrator_id = said.orchestrator_id
        self.agreed = frozenset(FEATURES).intersection(said.features)
        self.told = self._agent.session_opened(self)
        ready = session_pb2.Ready(
            instance_id=self._agent.instance_id,
            protocol=PROTOCOL,
            features=sorted(self.agreed),
            max_tasks=self.told,
            max_waiting=self._agent.waiting_share,
            max_message_bytes=MAX_CHECKED_BYTES,
        )
        self.queue.put(session_pb2.AgentFrame(ready=ready))

    def _session_frame(self, frame: session_pb2.OrchestratorFrame, arm: str | None) -> None:
        if arm == "heartbeat":
            echo = session_pb2.Heartbeat(echo=frame.heartbeat.counter)
            self.queue.put(session_pb2.AgentFrame(heartbeat=echo), droppable=True)
            self._flush_acks()
        elif arm == "failure":
            _log.warning("the orchestrator refused something: %s", frame.failure.message)
        elif arm == "drain":
            _log.info("orchestrator %s is going: %s", self.orchestrator_id, frame.drain.reason)
        else:
            raise unknown(arm)

    def _task_frame(self, frame: session_pb2.OrchestratorFrame, arm: str | None) -> None:
        self._tasks.check_epoch(frame.task)
        held = self._tasks.get(frame.task)
        if held is not None:
            if frame.ack:
                held.acked(frame.ack)
            if frame.sequence and arm != "assign_task" and held.channel.take(frame.sequence) is not Verdict.APPLY:
                self._out_of_order(held, frame.sequence, arm)
                return
        match arm:
            case "assign_task":
                self._assign(frame, held)
            case "cancel_task":
                if held is not None:
                    held.cancel()
            case "adopt_task":
                self._adopt(frame, held)
            case "delegate_result" | "budget_grant":
                if held is not None:
                    held.questions.answered(frame)
            case "discarded":
                if held is not None:
                    self._tasks.drop(held)
            case "failure":
                self._told(frame, held)
            case None if frame.ack and not frame.sequence and not len(UnknownFieldSet(frame)):
                pass  # nothing but an ack
            case _:
                raise unknown(arm)
        if held is not None and not held.working and not held.channel.has_unacked:
            self._tasks.drop(held)  # the result is where it should be

    def _out_of_order(self, held: HeldTask, sequence: int, arm: str | None) -> None:
        if sequence > held.channel.received:
            expected = held.channel.received + 1
            raise SequenceGap(f"frame {sequence} came where {expected} was due", metadata={"expected": str(expected)})
        if arm == "cancel_task":
            held.cancel()  # twice does no harm, and a new owner that counts from 1 must be heard

    def _assign(self, frame: session_pb2.OrchestratorFrame, held: HeldTask | None) -> None:
        if held is not None:
            held.channel.take(frame.sequence)  # sent again; it is being worked on
            return
        if frame.sequence > 1:
            raise SequenceGap(f"frame {frame.sequence} came where 1 was due", metadata={"expected": "1"})
        newest = self._tasks.newest(frame.task.task_id)
        if newest is not None and newest.ref.attempt > frame.task.attempt:
            return  # a late frame of an attempt that was superseded
        if self._tasks.was_done_with(frame.task):
            return
        refusal = self._agent.no_room(newest)
        if refusal is not None:
            self.told = None  # it halves its window now
            self._tasks.done_with(frame.task)
            self._reject(frame.task, refusal, frame.sequence)
            return
        task = HeldTask(self._tasks, frame.task, self)
        task.channel.take(frame.sequence)
        self._tasks.add(task)
        task.start(self._agent.handler, frame.assign_task, self._agent.role, self._agent.registration.stateful)

    def _reject(self, ref: common_pb2.TaskRef, error: ArchonError, ack: int) -> None:
        reject = session_pb2.Reject(failure=status.to_failure(error))
        self.queue.put(session_pb2.AgentFrame(task=ref, sequence=1, ack=ack, reject=reject))

    def _adopt(self, frame: session_pb2.OrchestratorFrame, held: HeldTask | None) -> None:
        if held is None:
            gone = NotFound("this instance doesn't hold the task", reason="NOT_HELD")
            self._reject(frame.task, gone, frame.sequence)
            return
        held.bind(self, frame.task.epoch)
        if held.working:
            held.say_working(self)
        held.send_again(frame.adopt_task.last_applied)
        if held.working:
            held.tell_usage()

    def _told(self, frame: session_pb2.OrchestratorFrame, held: HeldTask | None) -> None:
        error = status.from_failure(frame.failure)
        if held is not None and isinstance(error, SequenceGap):
            expected = error.metadata.get("expected", "1")
            held.send_again(int(expected) - 1 if expected.isdigit() else 0)
        elif held is not None and isinstance(error, UnknownFrame):
            held.questions.refuse(error)
        else:
            _log.warning("the orchestrator refused a frame of task %s: %s", frame.task.task_id, error)

    def _flush_acks(self) -> None:
        """Acks that nothing else has carried since the last beat."""
        for held in self._tasks:
            if held.session is self and held.channel.ack_owed:
                self.queue.put(held.channel.stamp(b"", sequenced=False))
