"""Frames of attempts whose run is owned by several replicas in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from archon.api.agent.v1 import agent_pb2, agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.errors import Unavailable
from archon.frames import FEATURES, SUPERSEDED, OutgoingFrame
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.ports import AttemptStatus
from archon_services.orchestrator.sessions.attempts import Attempts
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.in_flight import FRAME_OVERHEAD, InFlight, ProcessBytes
from archon_services.orchestrator.sessions.receipts import StopReceipt
from tests.unit.services.orchestrator.sessions.inbox import Inbox


def ref(epoch: int = 1, attempt: int = 1) -> common_pb2.TaskRef:
    return common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=attempt, epoch=epoch)


class Timers:
    """Calls what is due when a test lets time pass."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> Timers.Timer:
        self._waiting.append(call)
        return self.Timer(self, call)

    def pass_by(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    class Timer:
        def __init__(self, timers: Timers, call: Callable[[], None]) -> None:
            self._timers, self._call = timers, call

        def cancel(self) -> None:
            if self._call in self._timers._waiting:
                self._timers._waiting.remove(self._call)


timers = Timers()


def begun() -> tuple[Attempts, Inbox, list[session_pb2.OrchestratorFrame]]:
    """Returns attempts with an open stream, their inbox, and the frames that they send."""
    inbox, sent = Inbox(), list[session_pb2.OrchestratorFrame]()

    def send(frame: OutgoingFrame | session_pb2.OrchestratorFrame) -> None:
        if isinstance(frame, OutgoingFrame):
            frame = agent_service_pb2.SessionRequest.FromString(frame.head + frame.content).frames[0]
        sent.append(frame)

    slots = CreditWindow(lambda: None, lambda: 1)
    attempts = Attempts(
        "a-1",
        "a",
        inbox,
        send,
        slots,
        lambda: None,
        lambda role, capability: (role,),
        InFlight(ProcessBytes()),
        later=timers,
    )
    attempts.opened(ready())
    return attempts, inbox, sent


def ready() -> session_pb2.Ready:
    return session_pb2.Ready(features=FEATURES)


def frame_of(sequence: int, epoch: int = 1, **frame: Any) -> session_pb2.AgentFrame:
    return session_pb2.AgentFrame(task=ref(epoch), sequence=sequence, **frame)


RESULT = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)


def arms(sent: list[session_pb2.OrchestratorFrame]) -> list[str | None]:
    return [frame.WhichOneof("frame") for frame in sent]


def test_durability_11_a_replica_stops_no_foreign_attempts() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(frame_of(1, delegate=session_pb2.Delegate(delegation_id="d1", role="b")))
    assert not sent, "another replica may own the run and answer"
    receipt = inbox.deliveries[0].receipt
    assert receipt is not None
    receipt.discard("UNKNOWN_RUN", 4)
    assert arms(sent) == ["cancel_task"]
    assert sent[0].task.epoch == 4


def test_an_unassigned_attempt_that_is_over_is_stopped() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(frame_of(0, adopted=session_pb2.Adopted(last_applied=3)))
    assert inbox.deliveries[0].given == inp.WorkingIn("r.1", 1)
    assert not sent, "another replica may be about to adopt it"
    receipt = inbox.deliveries[0].receipt
    assert receipt is not None
    receipt.accept(2)
    assert not sent
    receipt.discard("ABORTED", 2)
    assert (arms(sent), sent[0].task.epoch) == (["cancel_task"], 2)


def test_an_attempt_known_by_its_records_is_stopped_if_over() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(frame_of(1, record=agent_pb2.CallRecord(request_json="{}")))
    attempts.frame(frame_of(0, adopted=session_pb2.Adopted(last_applied=1)))
    assert [delivery.given for delivery in inbox.deliveries] == [inp.WorkingIn("r.1", 1)]
    receipt = inbox.deliveries[0].receipt
    assert receipt is not None
    receipt.discard("UNKNOWN_RUN", 1)
    assert arms(sent) == ["cancel_task"]
    attempts.frame(frame_of(2, result=RESULT))
    assert len(inbox.deliveries[1].records) == 1, "frames of the offer are still delivered"


@pytest.mark.parametrize(("epoch", "is_rejected"), [(1, False), (3, True)])
def test_a_refused_copy_of_an_earlier_owners_frame_ends_no_attempt(epoch: int, is_rejected: bool) -> None:
    attempts, inbox, _ = begun()
    attempts.adopt(ref(3), "a", AttemptStatus(60.0), connected=True)
    stale = failure_pb2.Failure(code=10, reason=failure_pb2.ERROR_REASON_STALE_EPOCH)
    attempts.frame(frame_of(0, epoch, failure=stale))
    assert any(isinstance(each.given, inp.RejectIn) for each in inbox.deliveries) is is_rejected


def test_durability_12_an_offer_is_acked_in_the_owners_epoch() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(frame_of(1, result=RESULT))
    receipt = inbox.deliveries[0].receipt
    assert receipt is not None
    receipt.discard("UNKNOWN_RUN", 3)
    assert (sent[0].task.epoch, sent[0].ack) == (3, 1), "the agent may have received epoch 3 already"


def test_durability_18_an_offer_is_acked_only_once_durable() -> None:
    attempts, _, sent = begun()
    attempts.frame(frame_of(2, record=agent_pb2.CallRecord()))
    attempts.frame(frame_of(2, record=agent_pb2.CallRecord()))
    assert not sent, "frame 1, a checkpoint, did not reach this replica"


def test_durability_19_a_repeated_offer_is_delivered_again() -> None:
    attempts, inbox, _ = begun()
    attempts.frame(frame_of(2, result=RESULT))
    attempts.frame(frame_of(2, result=RESULT))
    assert len(inbox.deliveries) == 2


def test_durability_19_an_offer_may_begin_later_than_an_earlier_one() -> None:
    attempts, inbox, _ = begun()
    attempts.frame(frame_of(1, record=RECORD))
    attempts.frame(frame_of(2, checkpoint=session_pb2.Checkpoint(data=b"half")))  # and the stream breaks
    attempts.frame(frame_of(4, record=RECORD))  # the owner has acked what came before
    attempts.frame(frame_of(5, result=RESULT))
    (result,) = inbox.deliveries
    assert isinstance(result.given, inp.ResultIn)
    assert len(result.records) == 1


def test_what_came_of_an_offer_is_not_kept_beyond_its_stream() -> None:
    attempts, inbox, _ = begun()
    attempts.frame(frame_of(1, record=RECORD), 9_000)
    attempts.opened(ready())
    assert (len(attempts), attempts.in_flight.used) == (0, 0)
    attempts.frame(frame_of(1, result=RESULT), 9_000)
    attempts.opened(ready())
    assert (len(attempts), attempts.in_flight.used) == (1, 9_000), "its result is about to be stored"
    attempts.frame(frame_of(1, result=RESULT), 9_000)
    for delivery in inbox.deliveries:
        assert delivery.receipt is not None
        delivery.receipt.accept()
    assert (len(attempts), attempts.in_flight.used) == (0, 0)


def test_what_a_new_offer_replaces_is_in_flight_no_longer() -> None:
    attempts, inbox, _ = begun()
    for sequence in (1, 1, 3):
        attempts.frame(frame_of(sequence, record=RECORD), 9_000)
    assert attempts.in_flight.used == 9_000
    attempts.frame(frame_of(4, result=RESULT), 9_000)
    receipt = inbox.deliveries[0].receipt
    assert receipt is not None
    receipt.accept()
    assert attempts.in_flight.used == 0


def test_durability_21_a_new_stream_adopts_no_offers() -> None:
    attempts, _, sent = begun()
    attempts.frame(frame_of(1, record=agent_pb2.CallRecord()))
    attempts.opened(ready())
    assert not sent, "another replica may own the attempt"


def test_durability_21_unapplied_frames_are_accepted_again() -> None:
    attempts, inbox, sent = begun()
    attempts.adopt(ref(2), "a", AttemptStatus(60.0), connected=True)
    attempts.frame(frame_of(1, 2, result=RESULT))
    attempts.adopt(ref(3), "a", AttemptStatus(60.0), connected=True)
    attempts.frame(frame_of(1, 3, result=RESULT))
    assert len(inbox.deliveries) == 2
    assert arms(sent) == ["adopt_task", "adopt_task"]


def test_a_lost_attempt_is_stopped_once_its_loss_is_durable() -> None:
    attempts, inbox, sent = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.lose_all(Unavailable("silent"))
    attempts.opened(ready())
    assert arms(sent) == ["assign_task"]
    lost = inbox.deliveries[0]
    assert isinstance(lost.given, inp.LostIn)
    assert lost.receipt is not None
    lost.receipt.accept(1)
    assert arms(sent) == ["assign_task", "cancel_task"]
    attempts.opened(ready())
    assert arms(sent)[2:] == ["cancel_task"]


def test_a_stop_of_an_unassigned_attempt_is_sent_again() -> None:
    attempts, _, sent = begun()
    attempts.cancel(ref(2), "the run ends")  # the run was taken over and ends at once
    assert arms(sent) == ["cancel_task"]
    attempts.opened(ready())
    assert arms(sent)[1:] == ["cancel_task"], "the first cancel may have been lost with its stream"


def test_attempts_of_an_ended_run_are_stopped_on_reconnect() -> None:
    attempts, _, sent = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.release_run("r", over=True)
    assert not len(attempts)
    attempts.opened(ready())
    assert arms(sent) == ["assign_task", "cancel_task"]


def test_durability_18_acks_of_a_former_owner_are_ignored() -> None:
    attempts, _, sent = begun()
    attempts.adopt(ref(2), "a", AttemptStatus(60.0, applied=1), connected=True)
    answer = session_pb2.DelegateResult(delegation_id="d1")
    attempts.tell(ref(2), session_pb2.OrchestratorFrame(delegate_result=answer))
    attempts.frame(
        frame_of(2, ack=1, delegate=session_pb2.Delegate(delegation_id="d2", role="b"))
    )  # sent before the takeover
    attempts.frame(frame_of(0, 2, adopted=session_pb2.Adopted(last_applied=1)))
    results = [frame for frame in sent if frame.HasField("delegate_result")]
    assert [(frame.sequence, frame.delegate_result.delegation_id) for frame in results][-1:] == [(2, "d1")]


def test_an_adopted_frame_of_a_lower_epoch_is_ignored() -> None:
    attempts, _, sent = begun()
    attempts.adopt(ref(3), "a", AttemptStatus(60.0, 0, frozenset()), connected=True)
    answer = session_pb2.DelegateResult(delegation_id="d1")
    attempts.tell(ref(3), session_pb2.OrchestratorFrame(delegate_result=answer))
    attempts.frame(frame_of(0, 2, adopted=session_pb2.Adopted(last_applied=1)))
    assert arms(sent) == ["adopt_task"], (
        "the agent may still apply frames of the former owner, so that the next number is not known"
    )
    attempts.frame(frame_of(0, 3, adopted=session_pb2.Adopted(last_applied=2)))
    assert [(frame.WhichOneof("frame"), frame.sequence) for frame in sent[1:]] == [("delegate_result", 3)]


RECORD = agent_pb2.CallRecord(request_json="{}")


def test_many_records_are_stored_ahead_of_the_frame_that_they_precede(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.orchestrator.sessions.attempts.RECORDS_BYTES", 250)
    attempts, inbox, sent = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    for sequence in (1, 2, 3, 4):
        attempts.frame(frame_of(sequence, record=RECORD), 100)
    (ahead,) = inbox.deliveries
    assert (ahead.given, len(ahead.records)) == (inp.RecordsIn("r.1", 1, 3, 3), 3)
    assert ahead.receipt is not None
    ahead.receipt.accept(1)
    assert sent[-1].ack == 3, "the agent need not keep them"
    attempts.frame(frame_of(5, result=RESULT), 100)
    assert len(inbox.deliveries[1].records) == 1


def test_records_are_stored_if_the_session_has_no_room() -> None:
    attempts, inbox, _ = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.frame(frame_of(1, record=RECORD), 100)
    attempts.store_records()
    attempts.store_records()
    assert [delivery.given for delivery in inbox.deliveries] == [inp.RecordsIn("r.1", 1, 1, 1)]


def test_records_of_an_attempt_that_goes_on_are_stored_soon() -> None:
    attempts, inbox, _ = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    for sequence in (1, 2):
        attempts.frame(frame_of(sequence, record=RECORD), 100)
    assert not inbox.deliveries
    timers.pass_by()
    assert [delivery.given for delivery in inbox.deliveries] == [inp.RecordsIn("r.1", 1, 2, 2)]
    attempts.frame(frame_of(3, record=RECORD), 100)
    attempts.frame(frame_of(4, result=RESULT), 100)
    timers.pass_by()
    assert [type(delivery.given) for delivery in inbox.deliveries] == [inp.RecordsIn, inp.ResultIn]
    assert len(inbox.deliveries[1].records) == 1, "those before a result are stored with it"


def test_bytes_are_in_flight_until_their_event_is_durable() -> None:
    attempts, inbox, _ = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.frame(frame_of(1, record=RECORD), 5_000)
    attempts.frame(frame_of(2, checkpoint=session_pb2.Checkpoint(data=b"c")), 7_000)
    attempts.frame(frame_of(2, checkpoint=session_pb2.Checkpoint(data=b"c")), 7_000)
    attempts.frame(frame_of(3, result=RESULT), 10)
    assert attempts.in_flight.used == 12_000 + FRAME_OVERHEAD, "a repeated frame does not count"
    first, second = (delivery.receipt for delivery in inbox.deliveries)
    assert first is not None
    assert second is not None
    first.accept(1)
    assert attempts.in_flight.used == FRAME_OVERHEAD
    second.accept(1)
    assert attempts.in_flight.used == 0


def test_bytes_of_an_attempt_that_is_given_up_are_not_in_flight() -> None:
    attempts, inbox, _ = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.frame(frame_of(1, checkpoint=session_pb2.Checkpoint(data=b"c")), 7_000)
    attempts.release_run("r")
    assert attempts.in_flight.used == 0
    receipt = inbox.deliveries[0].receipt
    assert receipt is not None
    receipt.accept(1)
    assert attempts.in_flight.used == 0


def test_frames_that_store_nothing_do_not_fill_the_session() -> None:
    attempts, _, _ = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    for _ in range(10):
        attempts.frame(frame_of(0, ack=1), 1_000_000)
        attempts.frame(frame_of(0, progress=agent_pb2.Progress(text="x")), 1_000_000)
    assert attempts.in_flight.used == 0


def test_records_that_no_run_here_expects_are_dropped_at_once() -> None:
    attempts, inbox, _ = begun()
    inbox.expected = False
    for sequence in range(1, 100):
        attempts.frame(frame_of(sequence, record=RECORD), 1_000)
    assert (len(attempts), attempts.in_flight.used) == (0, 0)
    attempts.frame(frame_of(100, result=RESULT), 1_000)
    assert isinstance(inbox.deliveries[0].given, inp.ResultIn), "whether it is to be kept is another's decision"


def test_a_result_whose_records_were_dropped_waits_to_be_asked_for() -> None:
    attempts, inbox, _ = begun()
    inbox.expected = False
    attempts.frame(frame_of(3, record=RECORD))
    attempts.frame(frame_of(4, record=RECORD))
    inbox.expected = True  # the run has been taken over
    attempts.frame(frame_of(5, result=RESULT))
    assert not inbox.deliveries, "it would count without its records"
    attempts.frame(frame_of(3, record=RECORD))
    attempts.frame(frame_of(4, record=RECORD))
    attempts.frame(frame_of(5, result=RESULT))
    assert [len(delivery.records) for delivery in inbox.deliveries] == [2]


def test_an_offer_that_is_not_taken_is_not_held() -> None:
    attempts, inbox, _ = begun()
    inbox.takes = False
    attempts.frame(frame_of(1, result=RESULT), 9_000)
    assert (len(attempts), attempts.in_flight.used) == (0, 0)


def test_a_request_that_no_run_here_expects_is_passed_on_without_its_content() -> None:
    attempts, inbox, _ = begun()
    inbox.expected = False
    attempts.frame(frame_of(1, delegate=session_pb2.Delegate(delegation_id="d1", role="b")))
    assert inbox.deliveries[0].given == inp.WorkingIn("r.1", 1)


def test_an_attempt_is_cancelled_on_each_stream_until_it_is_adopted() -> None:
    attempts, _, sent = begun()
    attempts.cancel(ref(3), "superseded", connected=False)
    for streams in (1, 2):  # the first may break before the frame arrives
        attempts.opened(session_pb2.Ready(features=["cancel"]))
        assert arms(sent) == ["cancel_task"] * streams
    attempts.adopt(ref(4), "a", AttemptStatus(60.0), connected=False)
    attempts.opened(session_pb2.Ready(features=["cancel"]))
    assert arms(sent).count("cancel_task") == 2


@pytest.mark.parametrize(
    ("reason", "told"), [("UNKNOWN_RUN", "the run is over"), ("ABORTED", SUPERSEDED)], ids=["over", "superseded"]
)
def test_an_attempt_hears_whether_its_run_is_over(reason: str, told: str) -> None:
    cancelled: list[str] = []
    StopReceipt(ref(3), lambda _, text: cancelled.append(text)).discard(reason)
    assert cancelled == [told]
