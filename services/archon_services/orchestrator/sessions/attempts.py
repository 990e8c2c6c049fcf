"""The attempts that one instance holds: sends their frames, and turns the instance's frames into inputs of runs."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from archon import status
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, FrameTooLarge, SequenceGap, TooManyMessages, Unavailable, UnknownFrame
from archon.frames import SUPERSEDED, OutgoingFrame, Verdict, orchestrator_content
from archon.telemetry.logs import task_fields
from archon.wire import MAX_CHECKED_BYTES, set_seconds
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.convert.failures import failure_from_error, failure_from_proto
from archon_services.orchestrator.ports import AttemptStatus, Delivery, Inbox, Receipt
from archon_services.orchestrator.sessions.attempt_channel import (
    AttemptChannel,
    Key,
    Timer,
    key_of,
)
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.in_flight import FRAME_OVERHEAD, InFlight
from archon_services.orchestrator.sessions.inbound import (
    Resolve,
    ask_input,
    budget_input,
    cancel_delegation_input,
    checkpoint_input,
    delegate_input,
    publish_input,
    result_input,
    send_input,
    subscribe_input,
    unassigned_input,
    working_input,
)
from archon_services.orchestrator.sessions.receipts import FrameReceipt, LossReceipt, StopReceipt

_log = logging.getLogger(__name__)

MAX_STALE: Final = 1_000
RECORDS_BYTES: Final = 1024 * 1024
"""Bytes of an attempt's records above which they are stored ahead of the frame that they precede."""

MAX_RECORDS: Final = 1_000
"""As many records are stored ahead of it, too."""

RECORDS_WITHIN: Final = 0.5
"""Seconds after which the records of an attempt that goes on are stored ahead of it, so that people see its calls."""

Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after some seconds, unless the timer is cancelled."""


def in_loop(seconds: float, call: Callable[[], None]) -> Timer:
    """Calls a function from the running event loop."""
    return asyncio.get_running_loop().call_later(seconds, call)


Send = Callable[[OutgoingFrame | session_pb2.OrchestratorFrame], None]

MAX_SENT: Final = 2_000
"""Messages that an attempt may send: twice as many as a run may have. One that sends more does not read the replies."""

_WAITING_FOR_REPLY = ("delegate", "budget_request", "ask", "send_message", "adopted")
_BEFORE_RESULT = (
    "delegate",
    "cancel_delegation",
    "budget_request",
    "checkpoint",
    "publish",
    "ask",
    "send_message",
    "subscribe",
)
_NEEDED: Final = {"update_memory": "update_memory", "message": "messages"}
"""The features without which an instance is not told such news."""

_STORED = frozenset({"record", "result", *_BEFORE_RESULT})


class Attempts:
    """The attempts of one instance. A run counts frames about an attempt only if it was dispatched to `instance_id`.

    `in_flight` counts the bytes of frames that are not durable yet. `send` puts a frame on the stream, or drops it if
    there is none: important frames are sent again on the next stream. `no_capacity` is called when the instance rejects
    an attempt for lack of capacity. `run_held` is called with True when the first attempt of a run is added, and with
    False when its last one is removed.
    """

    def __init__(
        self,
        instance_id: str,
        role: str,
        inbox: Inbox,
        send: Send,
        credit: CreditWindow,
        no_capacity: Callable[[], None],
        resolve: Resolve,
        in_flight: InFlight,
        run_held: Callable[[str, bool], None] = lambda run_id, held: None,
        later: Later = in_loop,
    ) -> None:
        self._instance_id = instance_id
        self._role = role
        self._inbox = inbox
        self._send = send
        self._credit = credit
        self._no_capacity = no_capacity
        self._resolve = resolve
        self._run_held = run_held
        self._later = later
        self.in_flight = in_flight
        self._dropped: OrderedDict[Key, int] = OrderedDict()
        """Attempts whose records were dropped, and the sequence number of the first of them."""
        self._attempts: dict[Key, AttemptChannel] = {}
        self._by_run: dict[str, dict[Key, AttemptChannel]] = {}
        self.stale: OrderedDict[Key, common_pb2.TaskRef] = OrderedDict()
        """Attempts that no longer count but may still run: the instance has to stop them when it reconnects."""
        self._peer_limit = MAX_CHECKED_BYTES
        self._features: frozenset[str] | None = None

    def __len__(self) -> int:
        return len(self._attempts)

    def has_feature(self, name: str) -> bool:
        """Whether both sides support a feature; False before the first stream has opened."""
        return self._features is not None and name in self._features

    @property
    def runs(self) -> Iterable[str]:
        """The ids of the runs that attempts belong to."""
        return self._by_run.keys()

    def opened(self, ready: session_pb2.Ready) -> None:
        """Stops the stale attempts on each new stream, and asks for the others."""
        self._peer_limit = int(ready.max_message_bytes) or MAX_CHECKED_BYTES
        self._features = frozenset(ready.features)
        for ref in self.stale.values() if "cancel" in self._features else ():
            cancel = session_pb2.CancelTask(reason=SUPERSEDED)
            self._send(session_pb2.OrchestratorFrame(task=ref, cancel_task=cancel))
        # They stay: this stream may break before the frames arrive, and an assignment may still come after them.
        for attempt in list(self._attempts.values()):
            if not attempt.offered:
                self._send_adopt(attempt, None)
            elif attempt.in_part:
                self._remove(attempt)  # if the instance still holds it, it offers it anew

    def assign(self, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """Sends a task; if it is too large for a frame, the attempt fails."""
        attempt = self._attempts.get(key_of(ref)) or self._add(AttemptChannel(ref, role, self.in_flight))
        self._credit.take(attempt)
        try:
            frame = attempt.channel.stamp(orchestrator_content("assign_task", task), limit=self._peer_limit)
        except FrameTooLarge as error:
            self._remove(attempt)
            failed = inp.ResultIn(ref.task_id, ref.attempt, TaskState.FAILED, None, failure_from_error(error))
            self._deliver(ref.run_id, failed)
            return
        self._send(frame)

    def adopt(self, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus, *, connected: bool) -> None:
        """Asks the instance for an attempt of an earlier epoch, now or on the next stream."""
        if (earlier := self._attempts.get(key_of(ref))) is not None:
            self._remove(earlier)  # the instance sends again the frames that the earlier owner did not apply
        attempt = self._add(AttemptChannel(ref, role, self.in_flight))
        attempt.adopting, attempt.outstanding = True, set(standing.outstanding)
        attempt.released = standing.released
        attempt.channel.apply(standing.applied)
        self._credit.take(attempt)
        if connected:
            self._send_adopt(attempt, standing.remaining)

    def tell(self, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """Sends a reply to an attempt, once the attempt may use a slot again; or news, if the instance supports it."""
        attempt = self._attempts.get(key_of(ref))
        if attempt is None or attempt.concluded:
            return
        needed = _NEEDED.get(frame.WhichOneof("frame") or "")
        if needed is not None and self._features is not None and needed not in self._features:
            return
        attempt.ref.epoch = ref.epoch
        if self._credit.may_pass(attempt, frame):
            self._send_reply(attempt, frame)

    def send_released(self) -> None:
        """Sends the replies that were held until a slot is free."""
        for attempt, frame in self._credit.released():
            self._send_reply(attempt, frame)

    def _send_reply(self, attempt: AttemptChannel, frame: session_pb2.OrchestratorFrame) -> None:
        try:
            stamped = attempt.channel.stamp(frame, limit=self._peer_limit)
        except FrameTooLarge as error:
            if (arm := frame.WhichOneof("frame")) in _NEEDED:
                ref, about = attempt.ref, task_fields(attempt.ref)
                _log.warning(
                    "attempt %s of %s is not sent a frame (%s): %s", ref.attempt, ref.task_id, arm, error, extra=about
                )
                return
            frame.delegate_result.result.CopyFrom(
                agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED, failure=status.to_failure(error))
            )
            stamped = attempt.channel.stamp(frame)
        if not attempt.adopting:
            self._send(stamped)

    def cancel(self, ref: common_pb2.TaskRef, reason: str, *, connected: bool = True) -> None:
        """Orders the instance to stop an attempt, now or on the next stream, if it supports that. Its answer is
        discarded in any case."""
        if self._features is not None and "cancel" not in self._features:
            return
        attempt = self._attempts.get(key_of(ref))
        frame = session_pb2.OrchestratorFrame(cancel_task=session_pb2.CancelTask(reason=reason))
        if attempt is not None:
            attempt.ref.epoch = ref.epoch
            self._send(attempt.channel.stamp(frame))
        else:
            if connected:
                frame.task.CopyFrom(ref)
                self._send(frame)
            self._add_stale(ref)  # the stream may break before the frame arrives

    def lose_all(self, error: ArchonError, *, on_purpose: bool = False) -> None:
        """Reports every attempt as lost; the instance has to stop them when it reconnects. `on_purpose`: the instance
        announced that it stops."""
        for attempt in [attempt for attempt in self._attempts.values() if not attempt.concluded]:
            self._lose(attempt, error, on_purpose=on_purpose)

    def fail_all(self, error: ArchonError) -> None:
        """Fails every attempt for good, since none of their frames can be told apart; the instance has to stop them
        when it reconnects."""
        for attempt in [attempt for attempt in self._attempts.values() if not attempt.concluded]:
            self._fail(attempt, error)

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        """Removes the attempts of a run without stopping them, for another owner; if the run is `over`, the instance
        has to stop them."""
        for attempt in list(self._by_run.get(run_id, {}).values()):
            if over and not attempt.concluded:
                self._add_stale(attempt.ref)
            self._remove(attempt)

    def frame(self, frame: session_pb2.AgentFrame, size: int = 0) -> None:
        """Handles a frame of the instance about an attempt, of `size` bytes. Raises SequenceGap or UnknownFrame."""
        arm = frame.WhichOneof("frame")
        if arm == "progress":
            self._inbox.progress(frame.task, frame.progress, self._instance_id)
            return
        attempt = self._attempts.get(key_of(frame.task))
        if attempt is None or attempt.offered_again(frame.sequence) or (attempt.offered and arm == "adopted"):
            attempt = self._unassigned(frame, arm)
            if attempt is None:
                return
        if frame.ack and not attempt.adopting:  # before the adoption, acks are about frames of the earlier owner
            attempt.channel.acked(frame.ack)
        if frame.sequence and arm != "reject" and not self._in_order(attempt, frame.sequence):
            return
        if attempt.concluded and arm in _BEFORE_RESULT:
            return
        if arm in _STORED:
            attempt.charge(max(size, FRAME_OVERHEAD))
        self._handle(attempt, frame, arm, size)

    def _unassigned(self, frame: session_pb2.AgentFrame, arm: str | None) -> AttemptChannel | None:
        """Tells the run of a frame about an attempt that was not assigned here. Returns the attempt if the instance
        offers its result, which is held from now on; None if the frame needs no further handling."""
        if arm in _WAITING_FOR_REPLY:
            expected = self._inbox.expects(frame.task, self._instance_id)
            given = unassigned_input(frame, self._resolve) if expected else working_input(frame)
            self._deliver(frame.task.run_id, given, StopReceipt(frame.task, self.cancel))
        if arm not in ("result", "record") or self._drops(frame, arm):
            return None
        return self._add(AttemptChannel.of_offer(frame, self._role, self.in_flight))

    def _drops(self, frame: session_pb2.AgentFrame, arm: str) -> bool:
        """Whether an offered frame is dropped: a record that no run here expects, and the result after it if a run
        expects that by now. The run's owner asks for the attempt, and the instance sends all of it again."""
        key = key_of(frame.task)
        expected = self._inbox.expects(frame.task, self._instance_id)
        first = self._dropped.get(key)
        if arm == "record" and not expected:
            self._dropped[key] = frame.sequence if first is None else min(first, frame.sequence)
            if len(self._dropped) > MAX_STALE:
                self._dropped.popitem(last=False)
            return True
        if first is None:
            return False
        if arm == "record" and frame.sequence <= first:  # all of it comes again
            del self._dropped[key]
            return False
        return expected

    def _handle(self, attempt: AttemptChannel, frame: session_pb2.AgentFrame, arm: str | None, size: int) -> None:
        match arm:
            case "record":
                self._record(attempt, frame, size)
            case "result":
                self._result(attempt, frame)
            case "reject":
                self._rejected(attempt, frame.reject)
            case "delegate":
                self._credit.delegated(attempt, frame.delegate.delegation_id)
                records = attempt.take_records()
                self._deliver_frame(attempt, frame, delegate_input(frame, len(records), self._resolve), records)
            case "cancel_delegation":
                self._credit.delegation_cancelled(attempt, frame.cancel_delegation.delegation_id)
                self._deliver_frame(attempt, frame, cancel_delegation_input(frame))
            case "checkpoint":
                records = attempt.take_records()
                self._deliver_frame(attempt, frame, checkpoint_input(frame, len(records)), records)
            case "publish":
                records = attempt.take_records()
                self._deliver_frame(attempt, frame, publish_input(frame, len(records)), records)
            case "ask":
                records = attempt.take_records()
                self._deliver_frame(attempt, frame, ask_input(frame, len(records)), records)
            case "send_message":
                self._sent(attempt, frame)
            case "subscribe":
                self._deliver_frame(attempt, frame, subscribe_input(frame))
            case "budget_request":
                self._deliver_frame(attempt, frame, budget_input(frame))
            case "adopted" if frame.task.epoch >= attempt.ref.epoch:
                self._adopted(attempt, frame.adopted.last_applied)
            case "failure":
                self._frame_refused(attempt, frame)
            case None | "adopted" if frame.ack or arm:
                pass  # an ack alone; or a report for an earlier owner, sent before the agent heard of this one
            case _:
                raise UnknownFrame(f"unknown frame: {arm or 'no known field is set'}")

    def _sent(self, attempt: AttemptChannel, frame: session_pb2.AgentFrame) -> None:
        """Passes on a message. An attempt that floods the run with messages fails for good, and has to stop."""
        attempt.sent += 1
        if attempt.sent <= MAX_SENT:
            records = attempt.take_records()
            self._deliver_frame(attempt, frame, send_input(frame, len(records)), records)
            return
        error = TooManyMessages(f"an attempt can send at most {MAX_SENT:,} messages", metadata={"limit": str(MAX_SENT)})
        self._fail(attempt, error)

    def _fail(self, attempt: AttemptChannel, error: ArchonError) -> None:
        """Fails an attempt; the instance has to stop it."""
        ref = attempt.ref
        self._remove(attempt)
        failed = inp.ResultIn(ref.task_id, ref.attempt, TaskState.FAILED, None, failure_from_error(error))
        self._deliver(ref.run_id, failed, LossReceipt(ref, self._stop_lost))

    def _in_order(self, attempt: AttemptChannel, sequence: int) -> bool:
        """False for a repeated frame, which is acked again if its event is durable. Raises SequenceGap."""
        match attempt.channel.take(sequence):
            case Verdict.GAP:
                expected = attempt.channel.received + 1
                raise SequenceGap(
                    f"sequence gap: got {sequence}, expected {expected}", metadata={"expected": str(expected)}
                )
            case Verdict.DUPLICATE:
                if sequence <= attempt.channel.applied:
                    self._send(attempt.channel.stamp(b"", sequenced=False))
                return False
        return True

    def _send_adopt(self, attempt: AttemptChannel, remaining: float | None) -> None:
        if self._features is not None and "adopt" not in self._features:
            if not attempt.concluded:
                error = Unavailable("the stream broke, and the instance does not support the adoption of attempts")
                self._lose(attempt, error)
            return
        adopt = session_pb2.AdoptTask(last_applied=attempt.channel.applied)
        if remaining is not None:
            set_seconds(adopt.remaining, max(0.0, remaining))
        self._send(session_pb2.OrchestratorFrame(task=attempt.ref, adopt_task=adopt))

    def _result(self, attempt: AttemptChannel, frame: session_pb2.AgentFrame) -> None:
        self._conclude(attempt)
        result = result_input(attempt.key, frame.result, len(attempt.records))
        receipt = FrameReceipt(attempt, frame.sequence, self._send, self._remove)
        if not self._deliver(attempt.run_id, result, receipt, tuple(attempt.records)) and attempt.offered:
            self._remove(attempt)  # the instance offers it again

    def _record(self, attempt: AttemptChannel, frame: session_pb2.AgentFrame, size: int) -> None:
        """Keeps a record for the frame that it precedes. If there are many, they are stored by themselves."""
        attempt.records.append(frame.record)
        attempt.record_bytes += size
        if attempt.record_bytes >= RECORDS_BYTES or len(attempt.records) >= MAX_RECORDS:
            self._store_records(attempt)
        elif attempt.records_timer is None:
            attempt.records_timer = self._later(RECORDS_WITHIN, lambda: self._store_late(attempt))

    def _store_late(self, attempt: AttemptChannel) -> None:
        attempt.records_timer = None
        if attempt.records and self._attempts.get(attempt.key) is attempt and not attempt.concluded:
            self._store_records(attempt)

    def store_records(self) -> None:
        """Has all records stored that wait for the frame that they precede: they take up the room for it."""
        for attempt in list(self._attempts.values()):
            if attempt.records:
                self._store_records(attempt)

    def _store_records(self, attempt: AttemptChannel) -> None:
        records, sequence = attempt.take_records(), attempt.channel.received
        given = inp.RecordsIn(attempt.ref.task_id, attempt.ref.attempt, len(records), sequence)
        self._deliver(attempt.run_id, given, FrameReceipt(attempt, sequence, self._send), records)

    def _deliver(
        self,
        run_id: str,
        new_input: inp.Input,
        receipt: Receipt | None = None,
        records: tuple[agent_pb2.CallRecord, ...] = (),
    ) -> bool:
        size = receipt.size if isinstance(receipt, FrameReceipt) else 0
        return self._inbox.deliver(run_id, Delivery(new_input, receipt, records, size=size, source=self._instance_id))

    def _deliver_frame(
        self,
        attempt: AttemptChannel,
        frame: session_pb2.AgentFrame,
        new_input: inp.Input,
        records: tuple[agent_pb2.CallRecord, ...] = (),
    ) -> None:
        receipt = FrameReceipt(attempt, frame.sequence, self._send)
        self._deliver(attempt.run_id, new_input, receipt, records)

    def _adopted(self, attempt: AttemptChannel, last_applied: int) -> None:
        """Continues an adopted attempt: sends again the frames that the agent has not applied."""
        if attempt.adopting:
            attempt.adopting = False
            attempt.channel.continue_after(last_applied)
        else:
            attempt.channel.acked(last_applied)
        self._resend(attempt)

    def _resend(self, attempt: AttemptChannel) -> None:
        for frame in attempt.channel.unacked():
            self._send(frame)

    def _rejected(self, attempt: AttemptChannel, reject: session_pb2.Reject) -> None:
        failure, ref = failure_from_proto(reject.failure), attempt.ref
        self._remove(attempt)
        if failure.reason == "NOT_HELD":
            on_purpose = attempt.adopting and attempt.released
            self._deliver(ref.run_id, inp.LostIn(ref.task_id, ref.attempt, failure, on_purpose))
            return
        if failure.reason == "NO_CAPACITY":
            self._no_capacity()
        rejected = inp.RejectIn(ref.task_id, ref.attempt, failure, failure.retry_delay or 0.0)
        self._deliver(ref.run_id, rejected)

    def _frame_refused(self, attempt: AttemptChannel, frame: session_pb2.AgentFrame) -> None:
        """The agent refused a frame of this attempt: a gap is closed by sending again, any other error rejects it."""
        failure = failure_from_proto(frame.failure)
        if failure.reason == "SEQUENCE_GAP":
            self._resend(attempt)
        elif failure.reason == "UNKNOWN_FRAME":
            _log.info("%s does not know a frame: %s", self._role, failure.message, extra=task_fields(attempt.ref))
        elif failure.reason == "STALE_EPOCH" and frame.task.epoch < attempt.ref.epoch:
            pass  # a copy of a frame that an earlier owner sent: the agent holds the attempt all the same
        elif not attempt.concluded:
            self._remove(attempt)
            rejected = inp.RejectIn(attempt.ref.task_id, attempt.ref.attempt, failure)
            self._deliver(attempt.run_id, rejected)

    def _conclude(self, attempt: AttemptChannel) -> None:
        if not attempt.concluded:
            attempt.concluded = True
            self._credit.leave(attempt)

    def _add(self, attempt: AttemptChannel) -> AttemptChannel:
        """Adds an attempt, in place of one with the same key."""
        key, run_id = attempt.key, attempt.run_id
        if (replaced := self._attempts.get(key)) is not None:
            replaced.release(replaced.claim())  # nothing will store its records
            if replaced.run_id != run_id:
                self._remove_from_run(replaced)
        self._attempts[key] = attempt
        self.stale.pop(key, None)
        if (held := self._by_run.get(run_id)) is None:
            self._by_run[run_id] = {key: attempt}
            self._run_held(run_id, True)
        else:
            held[key] = attempt
        return attempt

    def _remove(self, attempt: AttemptChannel) -> None:
        self._conclude(attempt)
        if attempt.held:
            attempt.release(attempt.held)
        if self._attempts.get(attempt.key) is attempt:
            del self._attempts[attempt.key]
            self._remove_from_run(attempt)

    def _remove_from_run(self, attempt: AttemptChannel) -> None:
        held = self._by_run[attempt.run_id]
        del held[attempt.key]
        if not held:
            del self._by_run[attempt.run_id]
            self._run_held(attempt.run_id, False)

    def _lose(self, attempt: AttemptChannel, error: ArchonError, *, on_purpose: bool = False) -> None:
        ref = attempt.ref
        self._remove(attempt)
        on_purpose = on_purpose or (attempt.adopting and attempt.released)
        lost = inp.LostIn(ref.task_id, ref.attempt, failure_from_error(error), on_purpose)
        self._deliver(ref.run_id, lost, LossReceipt(ref, self._stop_lost))

    def _stop_lost(self, ref: common_pb2.TaskRef) -> None:
        """Orders a lost attempt to stop: now, if there is a stream, and on the next one."""
        self._add_stale(ref)
        self.cancel(ref, SUPERSEDED)

    def _add_stale(self, ref: common_pb2.TaskRef) -> None:
        self.stale[key_of(ref)] = ref
        if len(self.stale) > MAX_STALE:
            self.stale.popitem(last=False)
