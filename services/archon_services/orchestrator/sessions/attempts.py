"""The attempts that one instance holds: their frames go out, what it says of them comes in."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from archon import status
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, FrameTooLarge, SequenceGap, Unavailable, UnknownFrame
from archon.frames import OutgoingFrame, Verdict, orchestrator_content
from archon.wire import MAX_CHECKED_BYTES
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import TaskState
from archon_services.orchestrator.convert.failures import failure_from_error, failure_from_proto
from archon_services.orchestrator.convert.write import stamp
from archon_services.orchestrator.ports import AttemptStatus, Delivery, Inbox
from archon_services.orchestrator.sessions.attempt_channel import (
    AttemptChannel,
    FrameReceipt,
    Key,
    LossReceipt,
    StopReceipt,
    key_of,
)
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.inbound import (
    Resolve,
    asked_input,
    budget_input,
    checkpoint_input,
    delegate_input,
    needless_input,
    result_input,
)

_log = logging.getLogger(__name__)

MAX_STALE: Final = 1_000

Send = Callable[[OutgoingFrame | session_pb2.OrchestratorFrame], None]


class Attempts:
    """`send` puts a frame on the stream, or drops it where there is none: what matters is sent again on the next.
    `no_room` is called when an attempt was rejected for want of it."""

    def __init__(
        self, role: str, inbox: Inbox, send: Send, slots: CreditWindow, no_room: Callable[[], None], resolve: Resolve
    ) -> None:
        self._role = role
        self._inbox = inbox
        self._send = send
        self._slots = slots
        self._no_room = no_room
        self._resolve = resolve
        self._bindings: dict[Key, AttemptChannel] = {}
        self.stale: OrderedDict[Key, common_pb2.TaskRef] = OrderedDict()
        """Attempts that were lost: should their instance come back, it is to stop them."""
        self._peer_limit = MAX_CHECKED_BYTES
        self._features: frozenset[str] | None = None

    def __len__(self) -> int:
        return len(self._bindings)

    def opened(self, ready: session_pb2.Ready) -> None:
        """A stream is open: stale attempts are stopped, the others asked for."""
        self._peer_limit = int(ready.max_message_bytes) or MAX_CHECKED_BYTES
        self._features = frozenset(ready.features)
        for ref in self.stale.values() if "cancel" in self._features else ():
            cancel = session_pb2.CancelTask(reason="superseded")
            self._send(session_pb2.OrchestratorFrame(task=ref, cancel_task=cancel))
        self.stale.clear()
        for binding in [one for one in self._bindings.values() if not one.offered]:
            self._send_adopt(binding, None)

    def assign(self, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """Sends a task; one that is too large for a frame fails, alone."""
        binding = self._bindings.setdefault(key_of(ref), AttemptChannel(ref, role))
        self._slots.take(binding)
        try:
            frame = binding.channel.stamp(orchestrator_content("assign_task", task), limit=self._peer_limit)
        except FrameTooLarge as error:
            self._forget(binding)
            failed = inp.ResultIn(ref.task_id, ref.attempt, TaskState.FAILED, None, failure_from_error(error))
            self._inbox.deliver(ref.run_id, Delivery(failed))
            return
        self._send(frame)

    def adopt(self, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus, *, connected: bool) -> None:
        """Asks for an attempt of an earlier epoch, now or as soon as there is a stream."""
        if (before := self._bindings.get(key_of(ref))) is not None:
            self._forget(before)  # what came for the earlier owner and wasn't applied comes again
        binding = self._bindings[key_of(ref)] = AttemptChannel(ref, role)
        binding.unknown, binding.outstanding = True, set(standing.outstanding)
        binding.channel.apply(standing.applied)
        self._slots.take(binding)
        if connected:
            self._send_adopt(binding, standing.remaining)

    def tell(self, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """Sends an attempt what it asked for, as soon as it may go on."""
        binding = self._bindings.get(key_of(ref))
        if binding is None or binding.concluded:
            return
        binding.ref.epoch = ref.epoch
        if self._slots.may_pass(binding, frame):
            self._pass_on(binding, frame)

    def go_on(self) -> None:
        """There may be room: attempts that only waited for it get their answers."""
        for binding, frame in self._slots.released():
            self._pass_on(binding, frame)

    def _pass_on(self, binding: AttemptChannel, frame: session_pb2.OrchestratorFrame) -> None:
        try:
            stamped = binding.channel.stamp(frame, limit=self._peer_limit)
        except FrameTooLarge as error:
            frame.delegate_result.result.CopyFrom(
                agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED, failure=status.to_failure(error))
            )
            stamped = binding.channel.stamp(frame)
        if not binding.unknown:
            self._send(stamped)

    def cancel(self, ref: common_pb2.TaskRef, reason: str, *, connected: bool = True) -> None:
        """Tells the instance to stop, where it knows how, now or as soon as there is a stream; its answer is discarded
        either way."""
        if self._features is not None and "cancel" not in self._features:
            return
        binding = self._bindings.get(key_of(ref))
        frame = session_pb2.OrchestratorFrame(cancel_task=session_pb2.CancelTask(reason=reason))
        if binding is not None:
            binding.ref.epoch = ref.epoch
            self._send(binding.channel.stamp(frame))
        else:
            if connected:
                frame.task.CopyFrom(ref)
                self._send(frame)
            self._remember(ref)  # the stream may break before it has come

    def lose_all(self, error: ArchonError) -> None:
        """Every attempt is lost; its instance is told to stop if it comes back."""
        for binding in [one for one in self._bindings.values() if not one.concluded]:
            self._lose(binding, error)

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        """Its run is somebody else's: the instance keeps it, and is asked for it by the run's owner. Or it is over."""
        for binding in [one for one in self._bindings.values() if one.ref.run_id == run_id]:
            if over and not binding.concluded:
                self._remember(binding.ref)
            self._forget(binding)

    def frame(self, frame: session_pb2.AgentFrame) -> None:
        """What the instance says of an attempt. Raises what is wrong with the frame."""
        arm = frame.WhichOneof("frame")
        if arm == "progress":
            self._inbox.progress(frame.task, frame.progress)
            return
        binding = self._bindings.get(key_of(frame.task))
        if binding is None or binding.offered_again(frame.sequence) or (binding.offered and arm == "adopted"):
            if arm in ("delegate", "budget_request", "adopted"):
                asked = Delivery(asked_input(frame, self._resolve), StopReceipt(frame.task, self.cancel))
                self._inbox.deliver(frame.task.run_id, asked)
            if arm not in ("result", "record"):
                return  # of an attempt that is over here
            binding = self._bindings[key_of(frame.task)] = AttemptChannel.of_offer(frame, self._role)
        if frame.ack and not binding.unknown:  # until it is adopted it acks what its former owner said
            binding.channel.acked(frame.ack)
        if frame.sequence and arm != "reject" and not self._in_order(binding, frame.sequence):
            return
        if binding.concluded and arm in ("delegate", "cancel_delegation", "budget_request", "checkpoint"):
            return  # nothing of an attempt comes after its result
        match arm:
            case "record":
                binding.records.append(frame.record)
            case "result":
                self._result(binding, frame)
            case "reject":
                self._rejected(binding, frame.reject)
            case "delegate":
                self._delegated(binding, frame)
            case "cancel_delegation":
                self._slots.needless(binding, frame.cancel_delegation.delegation_id)
                self._deliver(binding, frame, needless_input(frame))
            case "checkpoint":
                records, binding.records = tuple(binding.records), []
                self._deliver(binding, frame, checkpoint_input(frame, len(records)), records)
            case "budget_request":
                self._deliver(binding, frame, budget_input(frame))
            case "adopted" if frame.task.epoch >= binding.ref.epoch:
                self._adopted(binding, frame.adopted.last_applied)
            case "failure":
                self._refused(binding, frame)
            case None | "adopted" if frame.ack or arm:
                pass  # an ack; or said unasked before it heard of this owner: what the former one sent is under way
            case _:
                raise UnknownFrame(f"this orchestrator doesn't know the frame {arm or 'of this number'}")

    def _in_order(self, binding: AttemptChannel, sequence: int) -> bool:
        """False for a frame that came before: it is acked again where its event is durable."""
        match binding.channel.take(sequence):
            case Verdict.GAP:
                due = binding.channel.received + 1
                raise SequenceGap(f"frame {sequence} came where {due} was due", metadata={"expected": str(due)})
            case Verdict.DUPLICATE:
                if sequence <= binding.channel.applied:
                    self._send(binding.channel.stamp(b"", sequenced=False))
                return False
        return True

    def _send_adopt(self, binding: AttemptChannel, remaining: float | None) -> None:
        if self._features is not None and "adopt" not in self._features:
            if not binding.concluded:
                self._lose(binding, Unavailable("the stream broke, and this instance can't be asked for its tasks"))
            return
        adopt = session_pb2.AdoptTask(last_applied=binding.channel.applied)
        if remaining is not None:
            stamp(adopt.remaining, max(0.0, remaining))
        self._send(session_pb2.OrchestratorFrame(task=binding.ref, adopt_task=adopt))

    def _result(self, binding: AttemptChannel, frame: session_pb2.AgentFrame) -> None:
        self._conclude(binding)
        result = result_input(binding.ref, frame.result, len(binding.records))
        receipt = FrameReceipt(binding, frame.sequence, self._send, lambda: self._forget(binding))
        self._inbox.deliver(binding.ref.run_id, Delivery(result, receipt, tuple(binding.records)))

    def _delegated(self, binding: AttemptChannel, frame: session_pb2.AgentFrame) -> None:
        self._slots.delegated(binding, frame.delegate.delegation_id)
        records, binding.records = tuple(binding.records), []
        self._deliver(binding, frame, delegate_input(frame, len(records), self._resolve), records)

    def _deliver(
        self,
        binding: AttemptChannel,
        frame: session_pb2.AgentFrame,
        given: inp.Input,
        records: tuple[agent_pb2.CallRecord, ...] = (),
    ) -> None:
        self._inbox.deliver(
            binding.ref.run_id, Delivery(given, FrameReceipt(binding, frame.sequence, self._send), records)
        )

    def _adopted(self, binding: AttemptChannel, last_applied: int) -> None:
        """The agent works on it; what it hasn't taken goes out again."""
        if binding.unknown:
            binding.unknown = False
            binding.channel.continue_after(last_applied)
        else:
            binding.channel.acked(last_applied)
        for again in binding.channel.unacked():
            self._send(again)

    def _rejected(self, binding: AttemptChannel, reject: session_pb2.Reject) -> None:
        failure, ref = failure_from_proto(reject.failure), binding.ref
        self._forget(binding)
        if failure.reason == "NOT_HELD":
            self._inbox.deliver(ref.run_id, Delivery(inp.LostIn(ref.task_id, ref.attempt, failure)))
            return
        if failure.reason == "NO_CAPACITY":
            self._no_room()
        rejected = inp.RejectIn(ref.task_id, ref.attempt, failure, failure.retry_delay or 0.0)
        self._inbox.deliver(ref.run_id, Delivery(rejected))

    def _refused(self, binding: AttemptChannel, frame: session_pb2.AgentFrame) -> None:
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

    def _conclude(self, binding: AttemptChannel) -> None:
        if not binding.concluded:
            binding.concluded = True
            self._slots.leave(binding)

    def _forget(self, binding: AttemptChannel) -> None:
        self._conclude(binding)
        if self._bindings.get(key_of(binding.ref)) is binding:
            del self._bindings[key_of(binding.ref)]

    def _lose(self, binding: AttemptChannel, error: ArchonError) -> None:
        ref = binding.ref
        self._forget(binding)
        lost = inp.LostIn(ref.task_id, ref.attempt, failure_from_error(error))
        self._inbox.deliver(ref.run_id, Delivery(lost, LossReceipt(ref, self._stop)))

    def _stop(self, ref: common_pb2.TaskRef) -> None:
        """Now, where there is a stream already, and on the next one."""
        self._remember(ref)
        self.cancel(ref, "superseded")

    def _remember(self, ref: common_pb2.TaskRef) -> None:
        self.stale[key_of(ref)] = ref
        if len(self.stale) > MAX_STALE:
            self.stale.popitem(last=False)
