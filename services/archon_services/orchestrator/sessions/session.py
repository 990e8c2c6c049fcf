"""A session with one instance, over as many streams as it takes. Losing a stream is not losing its tasks: within the
resume window they are adopted on the next one. Silence loses them at once."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from archon import status
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, FrameTooLarge, SequenceGap, Unavailable, UnknownFrame, WrongInstance
from archon.frames import Verdict, check_size
from archon.status import as_error
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.convert.failures import failure_from_error, failure_from_proto
from archon_services.orchestrator.convert.read import state_from_proto
from archon_services.orchestrator.convert.write import stamp
from archon_services.orchestrator.ports import Delivery, Inbox
from archon_services.orchestrator.sessions.binding import Binding, Key, ResultReceipt, key_of
from archon_services.orchestrator.sessions.stream import Limits, Silent, Stream

__all__ = ["Limits", "Session"]

_log = logging.getLogger(__name__)

MAX_STALE: Final = 1_000
MAX_BACKOFF: Final = 0.5


class Session:
    """`room_changed` is called whenever there may be room for a task, `unneeded` when the stream of an instance that is
    no longer registered has ended."""

    def __init__(
        self,
        *,
        orchestrator_id: str,
        instance_id: str,
        role: str,
        address: str,
        inbox: Inbox,
        room_changed: Callable[[str], None],
        unneeded: Callable[[str], None],
        limits: Limits,
    ) -> None:
        self.instance_id = instance_id
        self.role = role
        self.address = address
        self.registered = True
        self.reserved = 0
        self._orchestrator_id = orchestrator_id
        self._inbox = inbox
        self._room_changed = room_changed
        self._unneeded = unneeded
        self._limits = limits
        self._bindings: dict[Key, Binding] = {}
        self._stale: OrderedDict[Key, common_pb2.TaskRef] = OrderedDict()
        self._window = 0
        self._in_flight = 0
        self._peer_limit = 0
        self._features: frozenset[str] = frozenset()
        self._stream: Stream | None = None
        self._open = False
        self._fresh = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keeps a stream up in the background until `close`."""
        self._task = asyncio.create_task(self._run(), name=f"session-{self.instance_id}")

    async def close(self) -> None:
        """Ends the stream. What is bound is left as it is: the journal knows it. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)

    @property
    def room(self) -> int:
        """How many more tasks it takes now."""
        return self._window - self._in_flight - self.reserved if self._open else 0

    @property
    def load(self) -> float:
        """0 where idle, 1 where full."""
        return (self._in_flight + self.reserved) / self._window if self._window else 1.0

    @property
    def idle(self) -> bool:
        """True where nothing is bound to it."""
        return not self._bindings

    def holds(self, ref: common_pb2.TaskRef) -> bool:
        """True where this attempt is bound here."""
        return key_of(ref) in self._bindings

    @property
    def connected(self) -> bool:
        """True while a stream is open."""
        return self._open

    # What the driver asks for

    def assign(self, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """Sends a task; one that is too large for a frame fails, alone."""
        binding = self._bindings.setdefault(key_of(ref), Binding(ref, role))
        self._in_flight += 1
        frame = session_pb2.OrchestratorFrame(task=ref, assign_task=task)
        try:
            check_size(frame, self._peer_limit or 4 * 1024 * 1024)
        except FrameTooLarge as error:
            self._conclude(binding)
            self._forget(binding)
            failed = inp.ResultIn(
                ref.task_id,
                ref.attempt,
                state_from_proto(common_pb2.TASK_STATE_FAILED),
                None,
                failure_from_error(error),
            )
            self._inbox.deliver(ref.run_id, Delivery(failed))
            return
        self._send(binding.channel.stamp(frame))

    def adopt(self, ref: common_pb2.TaskRef, role: str, remaining: float) -> None:
        """Asks for an attempt of an earlier epoch; where there is no stream within the resume window it is lost."""
        binding = self._bindings.get(key_of(ref))
        if binding is None:
            binding = self._bindings[key_of(ref)] = Binding(ref, role)
            self._in_flight += 1
        binding.ref.CopyFrom(ref)
        if self._open:
            self._send_adopt(binding, remaining)

    def cancel(self, ref: common_pb2.TaskRef, reason: str) -> None:
        """Tells the instance to stop, where it knows how; its result is discarded either way."""
        if self._open and "cancel" not in self._features:
            return
        binding = self._bindings.get(key_of(ref))
        frame = session_pb2.OrchestratorFrame(cancel_task=session_pb2.CancelTask(reason=reason))
        if binding is not None:
            binding.ref.epoch = ref.epoch
            self._send(binding.channel.stamp(frame))
        else:
            frame.task.CopyFrom(ref)
            self._send(frame)

    def lose_all(self, error: ArchonError) -> None:
        """Every attempt bound here is lost; its instance is told to stop if it comes back."""
        for binding in list(self._bindings.values()):
            if not binding.concluded:
                self._lose(binding, error)

    # The stream

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        broken_at = loop.time()
        backoff = 0.1
        while True:
            stream = Stream(
                orchestrator_id=self._orchestrator_id,
                instance_id=self.instance_id,
                limits=self._limits,
                on_ready=self._ready,
                on_frame=self._frame,
            )
            self._stream = stream
            try:
                await stream.serve(self.address, fresh=self._fresh)
            except asyncio.CancelledError:
                raise
            except Exception as raised:  # noqa: BLE001 - whatever breaks a stream, its tasks must not hang
                error = as_error(raised)
                was_open, self._open = self._open, False
                if was_open:
                    broken_at, backoff = loop.time(), 0.1
                    _log.info("session with %s broke: %s", self.instance_id, error)
                self._fresh = isinstance(error, Silent)
                gone = isinstance(error, (Silent, WrongInstance)) or not self.registered
                if gone or loop.time() - broken_at > self._limits.resume_window:
                    self.lose_all(error)
                if not self.registered:
                    self._unneeded(self.instance_id)
                    return
            await asyncio.sleep(backoff * random.uniform(0.7, 1.0))
            backoff = min(MAX_BACKOFF, backoff * 1.5)

    def _send(self, frame: session_pb2.OrchestratorFrame) -> None:
        if self._open and self._stream is not None:
            self._stream.queue.put(frame)

    def _ready(self, ready: session_pb2.Ready) -> None:
        self._open = True
        self._window = ready.max_tasks
        self._peer_limit = int(ready.max_message_bytes)
        self._features = frozenset(ready.features)
        for ref in self._stale.values() if "cancel" in self._features else ():
            frame = session_pb2.OrchestratorFrame(task=ref, cancel_task=session_pb2.CancelTask(reason="superseded"))
            self._send(frame)
        self._stale.clear()
        for binding in list(self._bindings.values()):
            self._send_adopt(binding, None)
        self._room_changed(self.role)

    def _send_adopt(self, binding: Binding, remaining: float | None) -> None:
        if "adopt" not in self._features:
            if not binding.concluded:
                self._lose(binding, Unavailable("the stream broke, and this instance can't be asked for its tasks"))
            return
        adopt = session_pb2.AdoptTask(last_applied=binding.channel.applied)
        if remaining is not None:
            stamp(adopt.remaining, max(0.0, remaining))
        self._send(session_pb2.OrchestratorFrame(task=binding.ref, adopt_task=adopt))

    def _frame(self, frame: session_pb2.AgentFrame) -> None:
        arm = frame.WhichOneof("frame")
        try:
            if frame.HasField("task"):
                self._task_frame(frame, arm)
            elif arm == "credit":
                self._window = frame.credit.max_tasks
                self._room_changed(self.role)
            elif arm == "drain":
                self._window = 0
            elif arm == "failure":
                _log.warning("%s refused something: %s", self.instance_id, frame.failure.message)
            else:
                raise UnknownFrame(f"this orchestrator doesn't know the frame {arm or 'of this number'}")
        except ArchonError as error:
            told = session_pb2.OrchestratorFrame(failure=status.to_failure(error))
            if frame.HasField("task"):
                told.task.CopyFrom(frame.task)
            self._send(told)

    def _task_frame(self, frame: session_pb2.AgentFrame, arm: str | None) -> None:
        if arm == "progress":
            self._inbox.progress(frame.task, frame.progress)
            return
        binding = self._bindings.get(key_of(frame.task))
        if binding is None:
            if arm not in ("result", "record"):
                return  # of an attempt that is over here
            binding = self._bindings[key_of(frame.task)] = Binding(frame.task, self.role)
            binding.concluded = True
            binding.channel.apply(max(0, frame.sequence - 1))  # a parked result that nobody asked for
        if frame.ack:
            binding.channel.acked(frame.ack)
        if frame.sequence and arm != "reject":
            verdict = binding.channel.take(frame.sequence)
            if verdict is Verdict.GAP:
                expected = binding.channel.received + 1
                raise SequenceGap(
                    f"frame {frame.sequence} came where {expected} was due", metadata={"expected": str(expected)}
                )
            if verdict is Verdict.DUPLICATE:
                if frame.sequence <= binding.channel.applied:
                    self._send(binding.channel.stamp(session_pb2.OrchestratorFrame(), sequenced=False))
                return
        match arm:
            case "record":
                binding.records.append(frame.record)
            case "result":
                self._result(binding, frame)
            case "reject":
                self._rejected(binding, frame.reject)
            case "adopted":
                binding.channel.continue_after(frame.adopted.last_applied)
                for again in binding.channel.unacked():
                    self._send(again)
            case "failure":
                self._refused(binding, frame)
            case None if frame.ack:
                pass
            case _:
                raise UnknownFrame(f"this orchestrator doesn't know the frame {arm or 'of this number'}")

    def _result(self, binding: Binding, frame: session_pb2.AgentFrame) -> None:
        self._conclude(binding)
        said = frame.result
        result = inp.ResultIn(
            binding.ref.task_id,
            binding.ref.attempt,
            state_from_proto(said.state),
            said,
            failure_from_proto(said.failure) if said.HasField("failure") else None,
            not said.no_publish,
            len(binding.records),
        )
        receipt = ResultReceipt(binding, frame.sequence, self._send, lambda: self._forget(binding))
        self._inbox.deliver(binding.ref.run_id, Delivery(result, receipt, tuple(binding.records)))

    def _rejected(self, binding: Binding, reject: session_pb2.Reject) -> None:
        failure = failure_from_proto(reject.failure)
        self._conclude(binding)
        self._forget(binding)
        ref = binding.ref
        if failure.reason == "NOT_HELD":
            self._inbox.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure)))
            return
        if failure.reason == "NO_CAPACITY":
            self._window //= 2  # until the next credit
        delay = failure.retry_delay or 0.0
        self._inbox.deliver(ref.run_id, Delivery(inp.RejectIn(ref.task_id, ref.attempt, failure, delay)))

    def _refused(self, binding: Binding, frame: session_pb2.AgentFrame) -> None:
        """The agent found something wrong with a frame of this task. A gap is mended; else the attempt moves on."""
        failure = failure_from_proto(frame.failure)
        if failure.reason == "SEQUENCE_GAP":
            for again in binding.channel.unacked():
                self._send(again)
        elif failure.reason == "UNKNOWN_FRAME":
            _log.info("%s doesn't know a frame: %s", self.instance_id, failure.message)
        elif not binding.concluded:
            self._conclude(binding)
            self._forget(binding)
            given = inp.RejectIn(binding.ref.task_id, binding.ref.attempt, failure)
            self._inbox.deliver(binding.ref.run_id, Delivery(given))

    def _conclude(self, binding: Binding) -> None:
        if not binding.concluded:
            binding.concluded = True
            self._in_flight -= 1
            self._room_changed(self.role)

    def _forget(self, binding: Binding) -> None:
        if self._bindings.get(key_of(binding.ref)) is binding:
            del self._bindings[key_of(binding.ref)]

    def _lose(self, binding: Binding, error: ArchonError) -> None:
        self._conclude(binding)
        self._forget(binding)
        ref = binding.ref
        self._stale[key_of(ref)] = ref
        if len(self._stale) > MAX_STALE:
            self._stale.popitem(last=False)
        failure = failure_from_error(error)
        self._inbox.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure)))
