"""The validator of chaos on a correct journal, and on journals with a planted error: each check finds its error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import timestamp
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import encode_inputs
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.types import Edge, Failure, Submission, TaskState
from tests.chaos.journal import Archive, Ledger, Stored
from tests.chaos.validator import validate, validate_run
from tests.failures.load import Course
from tests.fixtures.run_events import event_to_proto
from tests.simulation.validator import Violation

GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")
T0 = 1_700_000_000.0
FIRST, SECOND = "r.1", "r.2"


class Case:
    """The journal of one run, the events that its watcher saw, and the agents' ledger. Change it, then call `check`."""

    def __init__(self, *inputs: inp.Input) -> None:
        state, events, stored = RunState(), [], []
        graph = (Edge("a", "b"),)
        submit = inp.Submit(Submission("r", "default", "q", "", "pipeline", ("a", "b"), graph, 60.0, None), "one", 1)
        for run_input in (submit, *inputs):
            stored.append((state.last_seq, encode_inputs([run_input], T0)))
            for event in decide(state, run_input, T0):
                apply(state, event, T0)
                proto = event_to_proto(event, run_id="r", seq=state.last_seq, time=timestamp(T0), epoch=state.epoch)
                events.append(proto)
        self.stored = Stored("r", ("q",), state.ended, state.epoch, events, stored)
        self.course = Course("r", "q", 0.0, 1.0, 2.0, events=copy.deepcopy(events))
        self.ledger = ["begin a r.1 1 7", "begin a r.1 2 8", "end a r.1 2 8", "begin b r.2 1 9", "end b r.2 1 9"]

    def check(self) -> None:
        ledger = Ledger.of(self.ledger)
        validate_run(self.stored, [self.course], ledger.begun.get("r", []), ledger.finished.get("r", []))

    def event(self, arm: str, number: int = 0) -> run_pb2.RunEvent:
        """Returns the event of this kind with this index."""
        return [event for event in self.stored.events if event.WhichOneof("event") == arm][number]

    def cut(self, arm: str, number: int = 0) -> None:
        """Removes an event and renumbers the others, for the watcher too, so that its absence is the only error."""
        self.stored.events.remove(self.event(arm, number))
        for seq, event in enumerate(self.stored.events, 1):
            event.seq = seq
        self.course.events = copy.deepcopy(self.stored.events)


def completed(task_id: str, attempt: int) -> inp.ResultIn:
    return inp.ResultIn(task_id, attempt, TaskState.COMPLETED, "answer")


def correct_case() -> Case:
    """A correct case: the first attempt at the first task is lost, another orchestrator takes over, and the run
    completes."""
    return Case(
        inp.SlotFound(FIRST, "i1"),
        inp.LostIn(FIRST, 1, GONE),
        inp.SlotFound(FIRST, "i2"),
        inp.Claim("two", 2),
        completed(FIRST, 2),
        inp.SlotFound(SECOND, "i3"),
        completed(SECOND, 1),
    )


def test_a_correct_journal_passes() -> None:
    correct_case().check()


def test_work_may_be_repeated_if_its_loss_is_journaled() -> None:
    case = correct_case()
    case.ledger.append("end a r.1 1 7")
    case.check()


def _swap_epochs(case: Case) -> None:
    case.event("dispatched", 2).task.epoch = 1


def _dispatched_beside(case: Case) -> None:
    case.cut("lost")


def _result_of_another_attempt(case: Case) -> None:
    case.event("result").task.attempt = 1


def _gap(case: Case) -> None:
    case.stored.events.remove(case.event("lost"))


def _twice(case: Case) -> None:
    case.stored.events.insert(3, copy.deepcopy(case.stored.events[3]))


def _never_ends(case: Case) -> None:
    case.stored.events.pop()
    case.course.events.pop()


def _another_decision(case: Case) -> None:
    case.event("dispatched", 2).dispatched.instance_id = "i9"


def _row_says_open(case: Case) -> None:
    case.stored.ended = False


def _two_requests(case: Case) -> None:
    case.stored.request_ids = ("q", "p")


def _claimed_once_only(case: Case) -> None:
    case.stored.epoch = 1


def _worked_twice(case: Case) -> None:
    case.ledger.append("end b r.2 1 9")


def _redone_without_loss(case: Case) -> None:
    case.ledger += ["begin b r.2 2 9", "end b r.2 2 9"]


def _never_dispatched(case: Case) -> None:
    case.ledger.append("begin b r.2 2 9")


def _seen_twice(case: Case) -> None:
    case.course.events.insert(2, case.course.events[1])


def _seen_out_of_order(case: Case) -> None:
    case.course.events[1], case.course.events[2] = case.course.events[2], case.course.events[1]


def _seen_in_part(case: Case) -> None:
    case.course.events.pop()


def _seen_and_not_durable(case: Case) -> None:
    case.course.events[3].task.attempt += 1


@pytest.mark.parametrize(
    ("doctor", "line"),
    [
        (_gap, "V2"),
        (_twice, "V2"),
        (_swap_epochs, "V2"),
        (_claimed_once_only, "V2"),
        (_never_ends, "V1"),
        (_row_says_open, "V1"),
        (_two_requests, "V1"),
        (_dispatched_beside, "V3"),
        (_result_of_another_attempt, "V3"),
        (_worked_twice, "V4"),
        (_redone_without_loss, "V4"),
        (_never_dispatched, "V5"),
        (_another_decision, "V6"),
        (_seen_twice, "V12"),
        (_seen_out_of_order, "V12"),
        (_seen_in_part, "V12"),
        (_seen_and_not_durable, "V12"),
    ],
)
def test_each_planted_error_is_found_by_its_check(doctor: Callable[[Case], None], line: str) -> None:
    case = correct_case()
    doctor(case)
    with pytest.raises(Violation, match=rf"^({line})\b"):
        case.check()


def test_a_dispatch_after_a_cancel_is_found() -> None:
    case = Case(
        inp.SlotFound(FIRST, "i1"), inp.Cancel("caller", ""), inp.ResultIn(FIRST, 1, TaskState.CANCELED, "stopped")
    )
    case.ledger = ["begin a r.1 1 7"]
    case.check()
    late = copy.deepcopy(case.event("dispatched"))
    late.task.task_id = SECOND
    case.stored.events.insert(-1, late)
    for seq, event in enumerate(case.stored.events, 1):
        event.seq = seq
    with pytest.raises(Violation, match=r"^V10"):
        case.check()


class FakeArchive(Archive):
    """A journal that holds the run of a case, or no run."""

    def __init__(self, case: Case, *, run_ids: list[str] | None = None, requests: dict[str, str] | None = None) -> None:
        self._case = case
        self._run_ids = ["r"] if run_ids is None else run_ids
        self._requests = {"q": "r"} if requests is None else requests

    async def run_ids(self) -> list[str]:
        return self._run_ids

    async def requests(self) -> dict[str, str]:
        return self._requests

    async def run(self, run_id: str) -> Stored:
        return self._case.stored


async def test_a_correct_archive_passes_and_returns_its_runs() -> None:
    case = correct_case()
    findings, runs = await validate(FakeArchive(case), [case.course], Ledger.of(case.ledger))
    assert not findings
    assert [run.state for run in runs] == [TaskState.COMPLETED]


async def test_an_acknowledged_run_missing_from_the_journal_is_found() -> None:
    case = correct_case()
    findings, _ = await validate(FakeArchive(case, run_ids=[]), [case.course], Ledger())
    assert [(finding.run_id, finding.what) for finding in findings] == [
        ("r", "V1: acknowledged, and not in the journal")
    ]


async def test_work_at_a_run_missing_from_the_journal_is_found() -> None:
    case = correct_case()
    findings, _ = await validate(FakeArchive(case, run_ids=[], requests={}), [], Ledger.of(case.ledger))
    assert ["V5" in finding.what for finding in findings] == [True]


async def test_a_request_that_made_two_runs_is_found() -> None:
    case = correct_case()
    findings, _ = await validate(FakeArchive(case, requests={"q": "another"}), [case.course], Ledger.of(case.ledger))
    assert [finding.what for finding in findings] == ["V1: the request q made another"]


async def test_a_violation_names_its_run(tmp_path: Path) -> None:
    case = correct_case()
    _gap(case)
    (tmp_path / "ledger.txt").write_text("\n".join(case.ledger) + "\n")
    findings, runs = await validate(FakeArchive(case), [case.course], Ledger.read(tmp_path / "ledger.txt"))
    assert [finding.run_id for finding in findings] == ["r"]
    assert not runs


@pytest.mark.parametrize(("accepted", "is_found"), [(True, True), (False, False)])
def test_an_answer_that_its_sender_was_told_to_count_and_that_does_not_is_found(accepted: bool, is_found: bool) -> None:
    case = correct_case()
    case.course.answers["second"] = accepted
    if not is_found:
        case.check()
        return
    with pytest.raises(Violation, match="V8: the answer 'second' was accepted; the journal has"):
        case.check()
