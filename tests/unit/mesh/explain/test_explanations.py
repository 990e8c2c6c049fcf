"""Explanations of runs, from their events: facts with the events that prove them, confidence, and the record."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.common.v1 import common_pb2, failure_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import Run, RunEvent
from archon_mesh.explain import Audience, Explanation, explain, word
from archon_mesh.explain.event_text import KINDS, event_text
from archon_mesh.explain.explanation import confidence_of, confidence_text, sentence
from archon_mesh.llm import ScriptedModel
from archon_mesh.recorded import RecordedRun

COMPLETED = common_pb2.TASK_STATE_COMPLETED
TRANSIENT = {"text_delta", "tool_event", "thinking_delta", "tool_arguments_delta"}


def text(value: str) -> list[common_pb2.Part]:
    return [common_pb2.Part(text=value)]


class Journal:
    """The events of a run that a test writes, a second apart."""

    def __init__(self, **run: Any) -> None:
        self.events: list[run_pb2.RunEvent] = []
        self.run = run_pb2.Run(run_id="r", goal=text("Count."), state=COMPLETED, **run)
        self.run.create_time.seconds = 1_000
        self.add(submitted=run_pb2.Submitted(goal=text("Count."), strategy=run_pb2.STRATEGY_PIPELINE, roles=["a", "b"]))

    def add(self, task: str = "", attempt: int = 0, **payload: Any) -> int:
        event = run_pb2.RunEvent(run_id="r", seq=len(self.events) + 1, **payload)
        event.time.seconds = 1_000 + len(self.events)
        if task:
            event.task.task_id, event.task.attempt = task, attempt
        self.events.append(event)
        return event.seq

    def task(self, task: str, role: str) -> None:
        self.add(task, task_state=run_pb2.TaskStateChanged(role=role, state=common_pb2.TASK_STATE_SUBMITTED))
        self.run.tasks.add(task_id=task, role=role, state=COMPLETED, attempt=1)

    def attempt(self, task: str, role: str, number: int = 1, given: tuple[tuple[str, int], ...] = ()) -> int:
        refs = [common_pb2.MemoryRef(role=name, run_id="r", seq=seq) for name, seq in given]
        dispatched = run_pb2.Dispatched(role=role, instance_id=f"{role}-{number}", given=refs)
        return self.add(task, number, dispatched=dispatched)

    def answer(self, task: str, role: str, said: str, number: int = 1, used: tuple[tuple[str, int], ...] = ()) -> int:
        refs = [common_pb2.MemoryRef(role=name, run_id="r", seq=seq) for name, seq in used]
        return self.add(
            task, number, result=run_pb2.ResultReceived(role=role, state=COMPLETED, output=text(said), used=refs)
        )

    def explained(self) -> Explanation:
        self.run.end_time.seconds = 1_000 + len(self.events)
        self.add(run_state=run_pb2.RunStateChanged(state=self.run.state))
        return explain(RecordedRun(Run(self.run), [RunEvent(event) for event in self.events]))


def facts(explanation: Explanation, kind: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(fact.text, fact.seqs) for fact in explanation.facts if fact.kind == kind]


def test_every_durable_kind_of_event_has_a_sentence() -> None:
    fields = run_pb2.RunEvent.DESCRIPTOR.oneofs_by_name["event"].fields
    assert {field.name for field in fields} - TRANSIENT == KINDS
    for kind in KINDS:
        event = run_pb2.RunEvent(run_id="r", seq=1)
        getattr(event, kind).SetInParent()
        assert event_text(RunView(), RunEvent(event)), kind
    assert "unknown" in event_text(RunView(), RunEvent(run_pb2.RunEvent(seq=1)))


def test_an_answer_names_the_answers_that_it_rests_on() -> None:
    journal = Journal()
    for task, role in (("1", "a"), ("2", "b"), ("3", "c")):
        journal.task(task, role)
    journal.attempt("1", "a")
    first = journal.answer("1", "a", "3 sheep")
    journal.attempt("2", "b")
    second = journal.answer("2", "b", "no goats")
    journal.attempt("3", "c", given=(("a", first), ("b", second)))
    last = journal.answer("3", "c", "3 animals.", used=(("a", first),))
    journal.run.answers.add(role="c", task_id="3", parts=text("3 animals."))
    explanation = journal.explained()
    [(said, seqs)] = facts(explanation, "answer")
    assert said == (
        'The answer of c, which rests on the answers of a, is "3 animals." It was given, and did not use, the answers of b.'
    )
    assert seqs == (last, first)
    assert facts(explanation, "work") == [("3 roles worked on it: a, b and c.", (5, 7, 9))]
    assert explanation.conclusion == "The run completed with an answer after 10.0 s."


def test_lost_and_repeated_attempts_are_troubles_with_their_reason() -> None:
    journal = Journal()
    journal.task("1", "a")
    journal.attempt("1", "a")
    lost = journal.add("1", 1, lost=run_pb2.Lost(instance_id="a-1", failure=failure_pb2.Failure(message="it died.")))
    journal.attempt("1", "a", 2)
    retry = run_pb2.RetryScheduled(role="a", failure=failure_pb2.Failure(message="overloaded"))
    again = journal.add("1", 2, retry=retry)
    journal.attempt("1", "a", 3)
    journal.answer("1", "a", "ok", 3)
    journal.add(claimed=run_pb2.Claimed(owner="o2", epoch=2))
    assert facts(journal.explained(), "trouble") == [
        ("a had to begin again twice, at last because overloaded.", (lost, again)),
        ("Another orchestrator took the run over (epoch 2).", (9,)),
    ]


def test_people_who_answered_are_named() -> None:
    journal = Journal()
    journal.task("1", "a")
    journal.attempt("1", "a")
    asked = journal.add("1", 1, input_requested=run_pb2.InputRequested(input_id="q", prompt=text("Which?"), role="a"))
    given = journal.add("1", 1, input_given=run_pb2.InputGiven(input_id="q", parts=text("red"), identity="ada"))
    open_ = journal.add("1", 1, approval_requested=run_pb2.ApprovalRequested(input_id="p", prompt=text("Buy it?")))
    decision = run_pb2.InputGiven(input_id="p", identity="bob", decision=question_pb2.DECISION_REJECT)
    closed = journal.add("1", 1, input_given=decision)
    assert facts(journal.explained(), "person") == [
        ('a asked "Which?", and ada answered "red".', (asked, given)),
        ('a asked "Buy it?", and bob rejected it.', (open_, closed)),
    ]


def test_a_failed_run_says_why_and_has_low_confidence() -> None:
    journal = Journal()
    journal.run.state = common_pb2.TASK_STATE_FAILED
    journal.run.failure.message, journal.run.failure.reason = "out of time", failure_pb2.ERROR_REASON_RUN_TIMEOUT
    explanation = journal.explained()
    assert explanation.conclusion == "The run failed after 1.00 s: out of time (RUN_TIMEOUT)."
    assert explanation.paragraph().endswith("Confidence: low, because there is no answer.")


def test_confidence_is_the_lowest_that_is_stated() -> None:
    journal = Journal()
    journal.run.answers.add(role="b", task_id="2", parts=text('{"total": 3, "confidence": 0.9}'))
    for stars in (4, 4):
        journal.run.ratings.add(identity="ada", stars=stars)
    confidence = journal.explained().confidence
    assert (confidence.level, confidence.value) == ("medium", 0.75)
    assert confidence.reasons == ("b states 0.9", "people's ratings give 0.75")
    doubted = confidence_of([(0.9, "b states")], ["a failed"])
    assert confidence_text(doubted) == "Confidence: medium (0.9 of 1: b states 0.9), lowered because a failed."
    assert confidence_text(confidence_of([], [])) == "Nothing in the run states how sure the answer is."


def test_the_record_has_every_event_with_its_time() -> None:
    journal = Journal()
    journal.task("1", "a")
    journal.attempt("1", "a")
    journal.answer("1", "a", "ok")
    explanation = journal.explained()
    assert [line.seq for line in explanation.record] == [1, 2, 3, 4, 5]
    assert [line.subject for line in explanation.record] == ["run", "a", "a #1", "a #1", "run"]
    assert explanation.record[3].iso_time == "1970-01-01T00:16:43.000Z" and explanation.record[3].offset == 3
    assert "record" not in explanation.document(Audience.DEVELOPER)
    document = explanation.document(Audience.AUDITOR)
    assert len(document["record"]) == 5 and document["evidence"][0]["seqs"] == (1,)
    assert explanation.document(Audience.USER)["text"] == explanation.paragraph()


def test_a_run_without_events_is_explained_from_its_summary() -> None:
    run = run_pb2.Run(run_id="r", goal=text("Count."), state=COMPLETED)
    run.tasks.add(task_id="1", role="a", attempt=1)
    run.answers.add(role="a", task_id="1", parts=text("3"))
    explanation = explain(RecordedRun(Run(run), expired=True))
    assert explanation.record == () and explanation.expired
    assert [fact.text for fact in explanation.facts][2:4] == ["1 role worked on it: a.", 'a gave the answer "3".']


async def test_a_model_words_the_facts_and_invented_numbers_are_named() -> None:
    explanation = Journal().explained()
    model = ScriptedModel(["All 7 sheep were counted in 1.00 s."])
    wording = await word(explanation, Audience.USER, model)
    assert wording.note() == ("Worded by the model scripted; the facts are below. No fact has these numbers of it: 7.")
    assert "after 1.00 s" in model.requests[0].messages[1].content


@pytest.mark.parametrize(("said", "full"), [('is "x."', 'is "x."'), ("x", "x."), ("x?", "x?"), ('is "x"', 'is "x".')])
def test_a_sentence_ends_with_one_stop(said: str, full: str) -> None:
    assert sentence(said) == full
