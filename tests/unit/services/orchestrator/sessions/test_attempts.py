"""What a session says of attempts where several replicas may own their run, one after the other."""

from __future__ import annotations

from typing import Any

from archon.api.agent.v1 import agent_pb2, agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon.frames import FEATURES, OutgoingFrame
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.ports import AttemptStatus
from archon_services.orchestrator.sessions.attempts import Attempts
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from tests.unit.services.orchestrator.sessions.inbox import Inbox


def ref(epoch: int = 1, attempt: int = 1) -> common_pb2.TaskRef:
    return common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=attempt, epoch=epoch)


def begun() -> tuple[Attempts, Inbox, list[session_pb2.OrchestratorFrame]]:
    """With an open stream."""
    inbox, sent = Inbox(), list[session_pb2.OrchestratorFrame]()

    def send(frame: OutgoingFrame | session_pb2.OrchestratorFrame) -> None:
        if isinstance(frame, OutgoingFrame):
            frame = agent_service_pb2.SessionRequest.FromString(frame.head + frame.content).frames[0]
        sent.append(frame)

    slots = CreditWindow(lambda: None, lambda: 1)
    attempts = Attempts("a", inbox, send, slots, lambda: None, lambda role, capability: (role,))
    attempts.opened(ready())
    return attempts, inbox, sent


def ready() -> session_pb2.Ready:
    return session_pb2.Ready(features=FEATURES)


def said(sequence: int, epoch: int = 1, **frame: Any) -> session_pb2.AgentFrame:
    return session_pb2.AgentFrame(task=ref(epoch), sequence=sequence, **frame)


RESULT = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)


def arms(sent: list[session_pb2.OrchestratorFrame]) -> list[str | None]:
    return [frame.WhichOneof("frame") for frame in sent]


def test_durability_11_a_replica_that_doesnt_own_a_run_stops_none_of_its_attempts() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(said(1, delegate=session_pb2.Delegate(delegation_id="d1", role="b")))
    assert not sent, "it doesn't know whether anybody will answer"
    receipt = inbox.got[0].receipt
    assert receipt is not None
    receipt.discard("UNKNOWN_RUN", 4)
    assert arms(sent) == ["cancel_task"]
    assert sent[0].task.epoch == 4


def test_an_attempt_that_says_unasked_that_it_is_worked_on_is_stopped_by_whoever_knows_that_it_is_over() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(said(0, adopted=session_pb2.Adopted(last_applied=3)))
    assert inbox.got[0].given == inp.WorkingIn("r.1", 1)
    assert not sent, "another replica may be about to ask for it"
    receipt = inbox.got[0].receipt
    assert receipt is not None
    receipt.accept(2)
    assert not sent
    receipt.discard("ABORTED", 2)
    assert (arms(sent), sent[0].task.epoch) == (["cancel_task"], 2)


def test_an_attempt_whose_records_came_unasked_is_stopped_too_where_it_is_over() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(said(1, record=agent_pb2.CallRecord(request_json="{}")))
    attempts.frame(said(0, adopted=session_pb2.Adopted(last_applied=1)))
    assert [one.given for one in inbox.got] == [inp.WorkingIn("r.1", 1)]
    receipt = inbox.got[0].receipt
    assert receipt is not None
    receipt.discard("UNKNOWN_RUN", 1)
    assert arms(sent) == ["cancel_task"]
    attempts.frame(said(2, result=RESULT))
    assert len(inbox.got[1].records) == 1, "what was offered goes on"


def test_durability_12_an_offered_result_is_acked_in_the_epoch_of_whoever_judges_it() -> None:
    attempts, inbox, sent = begun()
    attempts.frame(said(1, result=RESULT))
    receipt = inbox.got[0].receipt
    assert receipt is not None
    receipt.discard("UNKNOWN_RUN", 3)
    assert (sent[0].task.epoch, sent[0].ack) == (3, 1), "the agent may have heard of epoch 3 already"


def test_durability_18_of_an_offer_nothing_is_acked_before_its_result_is_durable() -> None:
    attempts, _, sent = begun()
    attempts.frame(said(2, record=agent_pb2.CallRecord()))
    attempts.frame(said(2, record=agent_pb2.CallRecord()))
    assert not sent, "frame 1, a checkpoint, came to nobody here"


def test_durability_19_an_offer_that_came_to_nothing_is_judged_again_when_it_is_made_again() -> None:
    attempts, inbox, _ = begun()
    attempts.frame(said(2, result=RESULT))
    attempts.frame(said(2, result=RESULT))
    assert len(inbox.got) == 2


def test_durability_21_a_stream_that_opens_adopts_nothing_that_was_only_offered() -> None:
    attempts, _, sent = begun()
    attempts.frame(said(1, record=agent_pb2.CallRecord()))
    attempts.opened(ready())
    assert not sent, "the attempt may be another replica's"


def test_durability_21_what_came_for_the_earlier_owner_and_wasnt_applied_is_taken_again() -> None:
    attempts, inbox, sent = begun()
    attempts.adopt(ref(2), "a", AttemptStatus(60.0), connected=True)
    attempts.frame(said(1, 2, result=RESULT))
    attempts.adopt(ref(3), "a", AttemptStatus(60.0), connected=True)
    attempts.frame(said(1, 3, result=RESULT))
    assert len(inbox.got) == 2
    assert arms(sent) == ["adopt_task", "adopt_task"]


def test_an_attempt_is_told_that_it_was_superseded_once_its_loss_is_durable_and_not_before() -> None:
    attempts, inbox, sent = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.lose_all(Unavailable("silent"))
    attempts.opened(ready())
    assert arms(sent) == ["assign_task"]
    lost = inbox.got[0]
    assert isinstance(lost.given, inp.LostIn)
    assert lost.receipt is not None
    lost.receipt.accept(1)
    assert arms(sent) == ["assign_task", "cancel_task"]
    attempts.opened(ready())
    assert arms(sent)[2:] == ["cancel_task"]


def test_an_attempt_that_is_to_stop_and_was_never_asked_for_is_told_again_on_the_next_stream() -> None:
    attempts, _, sent = begun()
    attempts.cancel(ref(2), "the run ends")  # a run that was taken over only to be ended
    assert arms(sent) == ["cancel_task"]
    attempts.opened(ready())
    assert arms(sent)[1:] == ["cancel_task"], "the first may have been lost with its stream"


def test_attempts_of_a_run_that_is_over_count_no_more_and_are_stopped_on_the_next_stream() -> None:
    attempts, _, sent = begun()
    attempts.assign(ref(), "a", agent_pb2.AssignTask())
    attempts.release_run("r", over=True)
    assert not len(attempts)
    attempts.opened(ready())
    assert arms(sent) == ["assign_task", "cancel_task"]


def test_durability_18_what_acked_a_former_owner_acks_nothing_of_its_successor() -> None:
    attempts, _, sent = begun()
    attempts.adopt(ref(2), "a", AttemptStatus(60.0, applied=1), connected=True)
    answer = session_pb2.DelegateResult(delegation_id="d1")
    attempts.tell(ref(2), session_pb2.OrchestratorFrame(delegate_result=answer))
    attempts.frame(said(2, ack=1, delegate=session_pb2.Delegate(delegation_id="d2", role="b")))  # on its way already
    attempts.frame(said(0, 2, adopted=session_pb2.Adopted(last_applied=1)))
    told = [frame for frame in sent if frame.HasField("delegate_result")]
    assert [(frame.sequence, frame.delegate_result.delegation_id) for frame in told][-1:] == [(2, "d1")]


def test_what_an_attempt_said_unasked_before_it_heard_of_its_new_owner_doesnt_answer_that_ones_question() -> None:
    attempts, _, sent = begun()
    attempts.adopt(ref(3), "a", AttemptStatus(60.0, 0, frozenset()), connected=True)
    answer = session_pb2.DelegateResult(delegation_id="d1")
    attempts.tell(ref(3), session_pb2.OrchestratorFrame(delegate_result=answer))
    attempts.frame(said(0, 2, adopted=session_pb2.Adopted(last_applied=1)))
    assert arms(sent) == ["adopt_task"], "frames of the former owner are under way: nobody knows yet how many it takes"
    attempts.frame(said(0, 3, adopted=session_pb2.Adopted(last_applied=2)))
    assert [(frame.WhichOneof("frame"), frame.sequence) for frame in sent[1:]] == [("delegate_result", 3)]
