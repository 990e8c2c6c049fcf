"""Approvals by rules, and the time of questions, by example."""

from __future__ import annotations

from typing import Any

import pytest

from archon.failure_kinds import ErrorSeverity
from archon_mesh.core.people import (
    Condition,
    Decision,
    InterceptionRule,
    QuestionKind,
    QuestionState,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine import Timer, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import MAX_SHOWN_STEPS
from archon_mesh.engine.decide.human_input import answer_refusal
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import Amount, Item, TaskState
from tests.unit.mesh.engine.lead_run import Lead
from tests.unit.mesh.engine.plan_run import BROKEN, BUSY, T0, PlanRun, plan_of, step

FIRST = "r.1/approval-1"


def rule(trigger: Trigger, condition: Condition | None = None, **fields: Any) -> InterceptionRule:
    return InterceptionRule(trigger, condition or Condition(), **fields)


def respond(
    run: PlanRun,
    input_id: str,
    decision: Decision,
    *,
    identity: str = "ann",
    plan: Plan | None = None,
    result: Any = None,
) -> list[ev.Event]:
    return run.feed(inp.Respond(input_id, identity, "", "00", "!", decision, plan, result))


def planned(*rules: InterceptionRule) -> PlanRun:
    """A run whose planner has replied with two steps, of which the second needs the first."""
    run = PlanRun(rules=rules)
    run.begin("r.1")
    run.reply(step("a", confidence=0.5), step("b", "a"))
    return run


def silence(run: PlanRun, seconds: float) -> list[ev.Event]:
    run.now += seconds
    return run.feed(inp.Tick())


def kinds(events: list[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def text_of(run: PlanRun) -> str:
    """The text of the last question."""
    return [event.message for event, _ in run.log if isinstance(event, ev.ApprovalRequested)][-1]


def test_a_question_says_what_waits() -> None:
    steps = [step(f"s{number}") for number in range(MAX_SHOWN_STEPS + 2)]
    run = PlanRun(rules=(rule(Trigger.PLAN), rule(Trigger.CHECKPOINT, Condition(step="s0")), rule(Trigger.REPLAN)))
    run.begin("r.1")
    run.reply(*steps)
    lines = text_of(run).splitlines()
    assert (len(lines), lines[-1]) == (MAX_SHOWN_STEPS + 2, "  and 2 more")
    respond(run, FIRST, Decision.APPROVE)
    run.complete("s0")
    assert text_of(run) == "Approve the answer of writer (s0)?"


def test_a_question_about_a_failure_says_what_can_be_done() -> None:
    run = PlanRun(step("a", critical=True), rules=(rule(Trigger.ERROR, Condition(severity_at_least=1)),))
    run.fail("a")
    assert text_of(run) == ("writer (a) failed: cannot\nApprove another attempt, or modify: give the answer.")


def test_the_message_of_a_rule_is_the_question() -> None:
    assert text_of(planned(rule(Trigger.PLAN, message="Shall we?"))) == "Shall we?"


def test_a_plan_waits_for_approval_before_it_begins() -> None:
    run = planned(rule(Trigger.PLAN, name="plans"))
    task = run.state.tasks["r.1"]
    assert (run.state.state, task.question, run.waiting()) == (TaskState.INPUT_REQUIRED, FIRST, set())
    assert not run.count(ev.Planned)
    assert text_of(run) == "Approve the plan: do it\n  a (writer): Do a.\n  b (writer): Do b."
    events = respond(run, FIRST, Decision.APPROVE)
    assert kinds(events) == ["InputGiven", "ResultReceived", "Planned", "TaskCreated", "TaskCreated"]
    assert run.waiting() == {"a"}
    assert [closed.state for closed in run.state.closed_questions] == [QuestionState.APPROVED]


def test_a_rejected_plan_fails_the_run() -> None:
    run = planned(rule(Trigger.PLAN, name="plans"))
    events = respond(run, FIRST, Decision.REJECT)
    assert kinds(events) == ["InputGiven", "CancelRequested", "TaskEnded", "RunEnded"]
    assert run.state.failure is not None
    failure = run.state.failure
    assert (failure.code, failure.reason) == ("FAILED_PRECONDITION", "APPROVAL_REJECTED")
    assert failure.message == "the plan was rejected by ann (rule plans)"
    assert dict(failure.metadata) == {"identity": "ann", "input_id": FIRST, "rule": "plans"}
    assert respond(run, FIRST, Decision.APPROVE) == [], "it is over"


def test_a_person_replaces_the_plan_that_waits() -> None:
    run = planned(rule(Trigger.PLAN))
    respond(run, FIRST, Decision.MODIFY, plan=plan_of(step("x"), step("y", "x")))
    assert run.waiting() == {"x"}


def test_a_plan_in_place_of_an_answer_is_ignored() -> None:
    run = Lead(rules=(rule(Trigger.CHECKPOINT, Condition(role="lead")),))
    run.place(1)
    run.result()
    plan = plan_of(step("x"))
    events = run.feed(inp.Respond(FIRST, "ann", "", "00", "!", Decision.MODIFY, plan, "this"))
    assert kinds(events) == ["InputGiven", "ResultReceived", "RunEnded"]
    assert run.state.tasks["r.1"].payload == "this"


@pytest.mark.parametrize(
    ("trigger", "condition", "asks"),
    [
        (Trigger.PLAN, {"role": "planner", "tenant": "default", "cost_above": 0.00009}, True),
        (Trigger.PLAN, {"cost_above": 0.00011}, False),
        (Trigger.PLAN, {"role": "writer"}, False),
        (Trigger.PLAN, {"tenant": "acme"}, False),
        (Trigger.CHECKPOINT, {"role": "writer", "tenant": "default", "step": "a", "cost_above": 0.00002}, True),
        (Trigger.CHECKPOINT, {"step": "a", "cost_above": 0.00004}, False),
        (Trigger.CHECKPOINT, {"step": "a", "tenant": "acme"}, False),
        (
            Trigger.ERROR,
            {"role": "writer", "tenant": "default", "step": "b", "severity_at_least": 1, "cost_above": 0.00002},
            True,
        ),
        (Trigger.ERROR, {"severity_at_least": 1, "cost_above": 0.00004}, False),
        (Trigger.ERROR, {"severity_at_least": 1, "tenant": "acme"}, False),
        (Trigger.ERROR, {"severity_at_least": 1, "role": "planner"}, False),
        (Trigger.ERROR, {"severity_at_least": 1, "step": "a"}, False),
    ],
)
def test_a_rule_asks_about_role_tenant_step_and_cost(trigger: Trigger, condition: dict[str, Any], asks: bool) -> None:
    run = PlanRun(rules=(rule(trigger, Condition(**condition)),))
    run.begin("r.1")
    run.reply(step("a", estimated_cost_micro_usd=60), step("b", estimated_cost_micro_usd=40))
    if trigger is not Trigger.PLAN:
        name, state = ("a", TaskState.COMPLETED) if trigger is Trigger.CHECKPOINT else ("b", TaskState.FAILED)
        run.begin(name)
        failure = BROKEN if state is TaskState.FAILED else None
        run.feed(inp.ResultIn(run.task(name).task_id, 1, state, None, failure, spent=Amount(0, 30)))
    assert run.count(ev.ApprovalRequested) == asks


def test_an_approved_result_publishes_its_items() -> None:
    run = PlanRun(step("a"), step("b", "a"), rules=(rule(Trigger.CHECKPOINT, Condition(step="a")),))
    run.begin("a")
    task, item = run.task("a"), Item(2, "an item")
    run.feed(inp.ResultIn(task.task_id, 1, TaskState.COMPLETED, "answer", items=(item,)))
    assert run.count(ev.ItemPublished) == 0
    published = respond(run, f"{task.task_id}/approval-1", Decision.APPROVE)[2]
    assert published == ev.ItemPublished(task.task_id, 1, "writer", 0, item)


def test_a_rejection_by_default_says_that_no_answer_came() -> None:
    reject: dict[str, Any] = {"on_timeout": TimeoutPolicy.DEFAULT, "default": "reject", "timeout": 5.0, "name": "late"}
    run = PlanRun(step("a"), rules=(rule(Trigger.CHECKPOINT, Condition(step="a"), **reject),))
    run.complete("a")
    silence(run, 5.0)
    assert run.state.failure is not None
    assert run.state.failure.message == "writer (a) was rejected because no answer came in time (rule late)"


def test_a_plan_with_faults_replaces_nothing() -> None:
    run = planned(rule(Trigger.PLAN))
    wrong = plan_of(step("x", "y"), step("y", "x"))
    assert respond(run, FIRST, Decision.MODIFY, plan=wrong) == []
    response = inp.Respond(FIRST, "ann", "", "00", "!", Decision.MODIFY, wrong)
    refusal = answer_refusal(run.state, run.state.tasks["r.1"], response)
    circle = "the subtasks depend on each other in a circle: x -> y -> x"
    assert refusal is not None
    assert (refusal.code, refusal.reason, refusal.message) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT", circle)
    assert refusal.violations == (("x", circle),)
    response = inp.Respond(FIRST, "ann", "", "00", "!", Decision.MODIFY, plan_of())
    refusal = answer_refusal(run.state, run.state.tasks["r.1"], response)
    assert refusal is not None
    assert refusal.violations == (("plan", "the plan has no subtask"),)


def test_a_person_gives_the_plan_that_the_planner_failed_to_make() -> None:
    run = PlanRun(rules=(rule(Trigger.ERROR, Condition(severity_at_least=ErrorSeverity.LOW)),))
    run.fail("r.1")
    (question,) = (event for event, _ in run.log if isinstance(event, ev.ApprovalRequested))
    assert "modify: give the plan" in question.message
    response = inp.Respond(FIRST, "ann", "", "00", "!", Decision.MODIFY, None, "an answer")
    refusal = answer_refusal(run.state, run.state.tasks["r.1"], response)
    assert refusal is not None
    assert (refusal.code, refusal.message) == ("INVALID_ARGUMENT", "the plan is missing")
    respond(run, FIRST, Decision.MODIFY, plan=plan_of(step("x"), step("y", "x")), result="the plan")
    assert run.waiting() == {"x"}


def test_only_an_unsure_plan_waits_for_its_confidence() -> None:
    assert planned(rule(Trigger.CONFIDENCE, Condition(confidence_below=0.6))).state.tasks["r.1"].question == FIRST
    assert planned(rule(Trigger.CONFIDENCE, Condition(confidence_below=0.4))).waiting() == {"a"}


def test_a_replan_waits_while_other_steps_go_on() -> None:
    run = planned(rule(Trigger.REPLAN))
    assert run.waiting() == {"a"}
    run = PlanRun(step("a", critical=True), step("b"), rules=(rule(Trigger.REPLAN),))
    run.begin("a", "b")
    run.fail("a")
    assert run.state.plan is not None
    planner = run.state.plan.planner
    run.begin(planner)
    run.reply(step("c"), step("b"))
    assert run.state.tasks[planner].question
    run.complete("b")
    respond(run, run.state.tasks[planner].question, Decision.APPROVE)
    assert run.states() == {"b": "COMPLETED", "c": "SUBMITTED"}


def test_a_step_behind_a_checkpoint_starts_after_its_approval() -> None:
    run = PlanRun(step("a", checkpoint=True), step("b", "a"), rules=(rule(Trigger.CHECKPOINT),))
    run.complete("a")
    question = run.task("a").question
    assert (bool(question), run.waiting()) == (True, set())
    respond(run, question, Decision.APPROVE)
    assert run.waiting() == {"b"}
    run.complete("b")
    assert run.state.state is TaskState.COMPLETED


def test_a_person_replaces_the_answer_of_a_checkpoint() -> None:
    run = PlanRun(step("a"), rules=(rule(Trigger.CHECKPOINT, Condition(step="a")),))
    run.complete("a")
    respond(run, run.task("a").question, Decision.MODIFY, result="a better answer")
    assert (run.state.state, run.task("a").payload) == (TaskState.COMPLETED, "a better answer")


def test_a_rejected_checkpoint_starts_nothing_behind_it() -> None:
    run = PlanRun(step("a"), step("b", "a"), step("c"), rules=(rule(Trigger.CHECKPOINT, Condition(step="a")),))
    run.begin("c")
    run.complete("a")
    respond(run, run.task("a").question, Decision.REJECT)
    assert run.state.ending is TaskState.FAILED
    run.complete("c")
    assert (run.state.state, run.task("b").attempt) == (TaskState.FAILED, 0)


@pytest.mark.parametrize(
    ("decision", "state", "attempt"),
    [
        (Decision.APPROVE, TaskState.SUBMITTED, 1),
        (Decision.MODIFY, TaskState.COMPLETED, 1),
        (Decision.REJECT, TaskState.CANCELED, 1),
    ],
)
def test_a_severe_failure_asks_before_the_next_attempt(decision: Decision, state: TaskState, attempt: int) -> None:
    severe = rule(Trigger.ERROR, Condition(severity_at_least=ErrorSeverity.LOW))
    run = PlanRun(step("a", critical=True), step("b", "a"), rules=(severe,))
    run.fail("a", BUSY)
    question = run.task("a").question
    assert question
    respond(run, question, decision, result="by hand")
    task = run.state.tasks["r.2"]
    assert (task.state, task.attempt) == (state, attempt)


def test_a_failure_below_the_severity_asks_no_one() -> None:
    run = PlanRun(step("a"), rules=(rule(Trigger.ERROR, Condition(severity_at_least=ErrorSeverity.CRITICAL)),))
    run.fail("a", BUSY)
    assert not run.task("a").question


def test_an_answer_of_another_identity_changes_nothing() -> None:
    run = planned(rule(Trigger.PLAN, approvers=("bob",)))
    assert respond(run, FIRST, Decision.APPROVE) == []
    refusal = answer_refusal(run.state, run.state.tasks["r.1"], inp.Respond(FIRST, "ann", "", "00"))
    assert refusal is not None
    assert refusal.code == "PERMISSION_DENIED"
    assert respond(run, FIRST, Decision.APPROVE, identity="bob")


def test_an_approval_needs_a_decision() -> None:
    run = planned(rule(Trigger.PLAN))
    assert respond(run, FIRST, Decision.UNSPECIFIED) == []


def test_silence_aborts_the_run_once() -> None:
    run = planned(rule(Trigger.PLAN, timeout=5.0))
    assert Timer(T0 + 5.0) in open_effects(run.state)
    assert silence(run, 4.9) == []
    events = silence(run, 0.1)
    assert kinds(events) == ["QuestionTimedOut", "CancelRequested", "TaskEnded", "RunEnded"]
    assert run.state.failure is not None
    assert run.state.failure.reason == "QUESTION_TIMED_OUT"
    assert silence(run, 10.0) == []
    assert [closed.state for closed in run.state.closed_questions] == [QuestionState.TIMED_OUT]


def test_silence_approves_if_that_is_the_default() -> None:
    run = planned(rule(Trigger.PLAN, timeout=5.0, on_timeout=TimeoutPolicy.DEFAULT, default="approve"))
    events = silence(run, 5.0)
    assert kinds(events)[:3] == ["QuestionTimedOut", "InputGiven", "ResultReceived"]
    assert run.waiting() == {"a"}
    assert respond(run, FIRST, Decision.REJECT) == [], "too late"


def test_silence_escalates_to_each_approver_in_turn() -> None:
    escalating = rule(Trigger.PLAN, timeout=5.0, on_timeout=TimeoutPolicy.ESCALATE, approvers=("ann", "bob"))
    run = planned(escalating)
    assert respond(run, FIRST, Decision.APPROVE, identity="bob") == [], "not yet"
    (event,) = silence(run, 5.0)
    assert isinstance(event, ev.QuestionTimedOut)
    assert (event.policy, event.level, event.rule) == (TimeoutPolicy.ESCALATE, 1, "plan")
    assert silence(run, 4.9) == [], "the second one has the same time"
    assert respond(run, FIRST, Decision.APPROVE, identity="bob")
    run = planned(escalating)
    silence(run, 5.0)
    assert kinds(silence(run, 5.0))[0] == "QuestionTimedOut"
    assert run.state.ended


def test_a_default_answer_is_the_input_of_the_next_attempt() -> None:
    run = PlanRun(step("a"))
    run.begin("a")
    terms = QuestionTerms("", (), 5.0, TimeoutPolicy.DEFAULT, "blue")
    task = run.task("a")
    run.feed(
        inp.QuestionIn(
            task.task_id, 1, TaskState.INPUT_REQUIRED, "?", input_id="q", kind=QuestionKind.INPUT, terms=terms
        )
    )
    silence(run, 5.0)
    assert (task.question, getattr(task.inputs[0], "text", "")) == ("", "blue")
    assert run.waiting() == {"a"}


def test_the_time_of_a_question_is_not_that_of_the_run() -> None:
    run = planned(rule(Trigger.PLAN, timeout=5_000.0))
    assert silence(run, 4_000.0) == [], "the clock of the run stands still"
    respond(run, FIRST, Decision.APPROVE)
    assert run.state.deadline == run.now + 600.0


def test_a_cancelled_run_withdraws_its_question() -> None:
    run = planned(rule(Trigger.PLAN, timeout=5.0))
    run.feed(inp.Cancel("me", ""))
    assert [closed.state for closed in run.state.closed_questions] == [QuestionState.CANCELLED]
    assert silence(run, 5.0) == []
