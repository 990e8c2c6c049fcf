"""The attempts that one instance holds: their frames go out, what it says of them comes in."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.channel import MAX_CHECKED_BYTES
from archon.errors import ArchonError, FrameTooLarge, SequenceGap, Unavailable, UnknownFrame
from archon.frames import Verdict, check_size
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import TaskState
from archon_services.orchestrator.convert.failures import failure_from_error, failure_from_proto
from archon_services.orchestrator.convert.read import state_from_proto
from archon_services.orchestrator.convert.write import stamp
from archon_services.orchestrator.ports import Delivery, Inbox
from archon_services.orchestrator.sessions.binding import Binding, Key, ResultReceipt, key_of

_log = logging.getLogger(__name__)

MAX_STALE: Final = 1_000

Send = Callable[[session_pb2.OrchestratorFrame], None]


class Attempts:
    """`send` puts a frame on the stream, or drops it where there is none: what matters is sent again on the next.
    `concluded` is called when an attempt counts against the window no more, `no_room` when one was rejected for it."""

    def __init__(self, role: str, inbox: Inbox, send: Send, concluded: Callable[[], None], no_room: Callable[[], None]):
        self.in_flight = 0
        self._role = role
        self._inbox = inbox
        self._send = send
        self._concluded = concluded
        self._no_room = no_room
        self._bindings: dict[Key, Binding] = {}
        self._stale: OrderedDict[Key, common_pb2.TaskRef] = OrderedDict()
        self._peer_limit = MAX_CHECKED_BYTES
        self._features: frozenset[str] | None = None

    def __len__(self) -> int:
        return len(self._bindings)

    def opened(self, ready: session_pb2.Ready) -> None:
        """A stream is open: stale attempts are stopped, the others asked for."""
        self._peer_limit = int(ready.max_message_bytes) or MAX_CHECKED_BYTES
        self._features = frozenset(ready.features)
        for ref in self._stale.values() if "cancel" in self._features else ():
            cancel = session_pb2.CancelTask(reason="superseded")
            self._send(session_pb2.OrchestratorFrame(task=ref, cancel_task=cancel))
        self._stale.clear()
        for binding in list(self._bindings.values()):
            self._send_adopt(binding, None)

    def assign(self, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """Sends a task; one that is too large for a frame fails, alone."""
        binding = self._bindings.setdefault(key_of(ref), Binding(ref, role))
        self.in_flight += 1
        frame = session_pb2.OrchestratorFrame(task=ref, assign_task=task)
        try:
            check_size(frame, self._peer_limit)
        except FrameTooLarge as error:
            self._forget(binding)
            failed = inp.ResultIn(ref.task_id, ref.attempt, TaskState.FAILED, None, failure_from_error(error))
            self._inbox.deliver(ref.run_id, Delivery(failed))
            return
        self._send(binding.channel.stamp(frame))

    def adopt(self, ref: common_pb2.TaskRef, role: str, remaining: float, *, connected: bool) -> None:
        """Asks for an attempt of an earlier epoch, now or as soon as there is a stream."""
        binding = self._bindings.get(key_of(ref))
        if binding is None:
            binding = self._bindings[key_of(ref)] = Binding(ref, role)
            self.in_flight += 1
        binding.ref.CopyFrom(ref)
        if connected:
            self._send_adopt(binding, remaining)

    def cancel(self, ref: common_pb2.TaskRef, reason: str) -> None:
        """Tells the instance to stop, where it knows how; its result is discarded either way."""
        if self._features is not None and "cancel" not in self._features:
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
        """Every attempt is lost; its instance is told to stop if it comes back."""
        for binding in list(self._bindings.values()):
            if not binding.concluded:
                self._lose(binding, error)

    def frame(self, frame: session_pb2.AgentFrame) -> None:
        """What the instance says of an attempt. Raises what is wrong with the frame."""
        arm = frame.WhichOneof("frame")
        if arm == "progress":
            self._inbox.progress(frame.task, frame.progress)
            return
        binding = self._bindings.get(key_of(frame.task))
        if binding is None:
            if arm not in ("result", "record"):
                return  # of an attempt that is over here
            binding = self._bindings[key_of(frame.task)] = Binding(frame.task, self._role)
            binding.concluded = True
            binding.channel.apply(max(0, frame.sequence - 1))  # a parked result that nobody asked for
        if frame.ack:
            binding.channel.acked(frame.ack)
        if frame.sequence and arm != "reject" and not self._in_order(binding, frame.sequence):
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

    def _in_order(self, binding: Binding, sequence: int) -> bool:
        """False for a frame that came before: it is acked again where its event is durable."""
        match binding.channel.take(sequence):
            case Verdict.GAP:
                expected = binding.channel.received + 1
                raise SequenceGap(
                    f"frame {sequence} came where {expected} was due", metadata={"expected": str(expected)}
                )
            case Verdict.DUPLICATE:
                if sequence <= binding.channel.applied:
                    self._send(binding.channel.stamp(session_pb2.OrchestratorFrame(), sequenced=False))
                return False
        return True

    def _send_adopt(self, binding: Binding, remaining: float | None) -> None:
        if self._features is not None and "adopt" not in self._features:
            if not binding.concluded:
                self._lose(binding, Unavailable("the stream broke, and this instance can't be asked for its tasks"))
            return
        adopt = session_pb2.AdoptTask(last_applied=binding.channel.applied)
        if remaining is not None:
            stamp(adopt.remaining, max(0.0, remaining))
        self._send(session_pb2.OrchestratorFrame(task=binding.ref, adopt_task=adopt))

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
        self._forget(binding)
        ref = binding.ref
        if failure.reason == "NOT_HELD":
            self._inbox.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure)))
            return
        if failure.reason == "NO_CAPACITY":
            self._no_room()
        delay = failure.retry_delay or 0.0
        self._inbox.deliver(ref.run_id, Delivery(inp.RejectIn(ref.task_id, ref.attempt, failure, delay)))

    def _refused(self, binding: Binding, frame: session_pb2.AgentFrame) -> None:
        """The agent found something wrong with a frame of this task. A gap is mended; else the attempt moves on."""
        failure = failure_from_proto(frame.failure)
        if failure.reason == "SEQUENCE_GAP":
            for again in binding.channel.unacked():
                self._send(again)
        elif failure.reason == "UNKNOWN_FRAME":
            _log.info("%s doesn't know a frame: %s", self._role, failure.message)
        elif not binding.concluded:
            self._forget(binding)
            given = inp.RejectIn(binding.ref.task_id, binding.ref.attempt, failure)
            self._inbox.deliver(binding.ref.run_id, Delivery(given))

    def _conclude(self, binding: Binding) -> None:
        if not binding.concluded:
            binding.concluded = True
            self.in_flight -= 1
            self._concluded()

    def _forget(self, binding: Binding) -> None:
        self._conclude(binding)
        if self._bindings.get(key_of(binding.ref)) is binding:
            del self._bindings[key_of(binding.ref)]

    def _lose(self, binding: Binding, error: ArchonError) -> None:
        self._forget(binding)
        ref = binding.ref
        self._stale[key_of(ref)] = ref
        if len(self._stale) > MAX_STALE:
            self._stale.popitem(last=False)
        lost = inp.LostIn(ref.task_id, ref.attempt, failure_from_error(error))
        self._inbox.deliver(ref.run_id, Delivery(lost))
