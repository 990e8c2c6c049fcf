"""The validator of chaos over a journal that is as it should be, and over ones that were doctored: each line bites."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import timestamp
from archon_mesh.core.run import RunState, apply, decide
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import encode_inputs
from archon_mesh.core.run.types import Edge, Failure, Submission, TaskState
from archon_services.orchestrator.convert import event_to_proto
from tests.chaos.journal import Archive, Ledger, Stored
from tests.chaos.validator import validate, validate_run
from tests.failures.load import Course
from tests.simulation.validator import Violation

GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")
T0 = 1_700_000_000.0
FIRST, SECOND = "r.1", "r.2"


class Case:
    """What is left of one run, and what its watcher and the agents have of it. Doctor it, then `check` it."""

    def __init__(self, *inputs: inp.Input) -> None:
        state, events, stored = RunState(), [], []
        graph = (Edge("a", "b"),)
        submit = inp.Submit(Submission("r", "default", "q", "", "pipeline", ("a", "b"), graph, 60.0, None), "one", 1)
        for given in (submit, *inputs):
            stored.append((state.last_seq, encode_inputs([given], T0)))
            for event in decide(state, given, T0):
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
        """Of the events of this kind, one."""
        return [event for event in self.stored.events if event.WhichOneof("event") == arm][number]

    def cut(self, arm: str, number: int = 0) -> None:
        """Takes an event out, numbers the rest again, for the watcher too: nothing but its absence is wrong."""
        self.stored.events.remove(self.event(arm, number))
        for seq, event in enumerate(self.stored.events, 1):
            event.seq = seq
        self.course.events = copy.deepcopy(self.stored.events)


def done(task_id: str, attempt: int) -> inp.ResultIn:
    return inp.ResultIn(task_id, attempt, TaskState.COMPLETED, "answer")


def case() -> Case:
    """The first attempt at the first task is lost, another orchestrator goes on with the run, and all ends well."""
    return Case(
        inp.SlotFound(FIRST, "i1"),
        inp.LostIn(FIRST, 1, GONE),
        inp.SlotFound(FIRST, "i2"),
        inp.Claim("two", 2),
        done(FIRST, 2),
        inp.SlotFound(SECOND, "i3"),
        done(SECOND, 1),
    )


def test_what_is_as_it_should_be_passes() -> None:
    case().check()


def test_work_whose_loss_is_journaled_may_be_done_again() -> None:
    one = case()
    one.ledger.append("end a r.1 1 7")
    one.check()


def _swap_epochs(one: Case) -> None:
    one.event("dispatched", 2).task.epoch = 1


def _dispatched_beside(one: Case) -> None:
    one.cut("lost")


def _result_of_another_attempt(one: Case) -> None:
    one.event("result").task.attempt = 1


def _gap(one: Case) -> None:
    one.stored.events.remove(one.event("lost"))


def _twice(one: Case) -> None:
    one.stored.events.insert(3, copy.deepcopy(one.stored.events[3]))


def _never_ends(one: Case) -> None:
    one.stored.events.pop()
    one.course.events.pop()


def _another_decision(one: Case) -> None:
    one.event("dispatched", 2).dispatched.instance_id = "i9"


def _row_says_open(one: Case) -> None:
    one.stored.ended = False


def _two_requests(one: Case) -> None:
    one.stored.request_ids = ("q", "p")


def _claimed_once_only(one: Case) -> None:
    one.stored.epoch = 1


def _worked_twice(one: Case) -> None:
    one.ledger.append("end b r.2 1 9")


def _redone_without_loss(one: Case) -> None:
    one.ledger += ["begin b r.2 2 9", "end b r.2 2 9"]


def _never_dispatched(one: Case) -> None:
    one.ledger.append("begin b r.2 2 9")


def _seen_twice(one: Case) -> None:
    one.course.events.insert(2, one.course.events[1])


def _seen_out_of_order(one: Case) -> None:
    one.course.events[1], one.course.events[2] = one.course.events[2], one.course.events[1]


def _seen_in_part(one: Case) -> None:
    one.course.events.pop()


def _seen_and_not_durable(one: Case) -> None:
    one.course.events[3].task.attempt += 1


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
def test_each_line_bites(doctor: Callable[[Case], None], line: str) -> None:
    one = case()
    doctor(one)
    with pytest.raises(Violation, match=rf"^({line})\b"):
        one.check()


def test_a_dispatch_after_a_cancel_is_found() -> None:
    one = Case(
        inp.SlotFound(FIRST, "i1"), inp.Cancel("somebody", ""), inp.ResultIn(FIRST, 1, TaskState.CANCELED, "stopped")
    )
    one.ledger = ["begin a r.1 1 7"]
    one.check()
    late = copy.deepcopy(one.event("dispatched"))
    late.task.task_id = SECOND
    one.stored.events.insert(-1, late)
    for seq, event in enumerate(one.stored.events, 1):
        event.seq = seq
    with pytest.raises(Violation, match=r"^V10"):
        one.check()


class FakeArchive(Archive):
    """A journal with one run, or without it."""

    def __init__(self, one: Case, *, run_ids: list[str] | None = None, requests: dict[str, str] | None = None) -> None:
        self._case = one
        self._run_ids = ["r"] if run_ids is None else run_ids
        self._requests = {"q": "r"} if requests is None else requests

    async def run_ids(self) -> list[str]:
        return self._run_ids

    async def requests(self) -> dict[str, str]:
        return self._requests

    async def run(self, run_id: str) -> Stored:
        return self._case.stored


async def test_all_of_it_together_passes_and_counts() -> None:
    one = case()
    findings, runs = await validate(FakeArchive(one), [one.course], Ledger.of(one.ledger))
    assert not findings
    assert [run.state for run in runs] == [TaskState.COMPLETED]


async def test_an_acknowledged_run_that_is_not_in_the_journal_is_found() -> None:
    one = case()
    findings, _ = await validate(FakeArchive(one, run_ids=[]), [one.course], Ledger())
    assert [(one.run_id, one.what) for one in findings] == [("r", "V1: acknowledged, and not in the journal")]


async def test_work_at_a_run_that_is_not_in_the_journal_is_found() -> None:
    one = case()
    findings, _ = await validate(FakeArchive(one, run_ids=[], requests={}), [], Ledger.of(one.ledger))
    assert ["V5" in one.what for one in findings] == [True]


async def test_a_request_that_made_two_runs_is_found() -> None:
    one = case()
    findings, _ = await validate(FakeArchive(one, requests={"q": "another"}), [one.course], Ledger.of(one.ledger))
    assert [one.what for one in findings] == ["V1: the request q made another"]


async def test_a_violation_names_its_run(tmp_path: Path) -> None:
    one = case()
    _gap(one)
    (tmp_path / "ledger.txt").write_text("\n".join(one.ledger) + "\n")
    findings, runs = await validate(FakeArchive(one), [one.course], Ledger.read(tmp_path / "ledger.txt"))
    assert [one.run_id for one in findings] == ["r"]
    assert not runs
