"""The failures that the engine itself gives to runs, tasks and requests, word for word: callers match their reasons, and
people read their messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon_mesh.core.people import Decision, QuestionKind, QuestionTerms
from archon_mesh.engine import apply
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import delegation, event_limit
from archon_mesh.engine.decide import plan as decide_plan
from archon_mesh.engine.decide.approval import MAX_QUESTIONS
from archon_mesh.engine.decide.human_input import answer_refusal
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.decide.retries import ERROR_BUDGET, RECOVERY, Kind, recovery_exhausted
from archon_mesh.engine.effects import CANCEL_GRACE
from archon_mesh.engine.plan import MAX_REPLANS, SubTask
from archon_mesh.engine.types import Amount, Budget, Failure, SessionContextRef, TaskState
from tests.unit.mesh.engine.lead_run import GONE, Lead
from tests.unit.mesh.engine.plan_run import PlanRun, plan_of, step

INVALID = ("INVALID_ARGUMENT", "INVALID_ARGUMENT")


def told(failure: Failure | None) -> tuple[str, ...]:
    """Code, reason and message."""
    assert failure is not None
    return failure.code, failure.reason, failure.message


def told_all(failure: Failure | None) -> tuple[object, ...]:
    """And the metadata."""
    assert failure is not None
    return *told(failure), dict(failure.metadata)


def refusal(events: list[ev.Event]) -> Failure | None:
    """The failure of the delegation among the events."""
    (event,) = (event for event in events if isinstance(event, ev.Delegated))
    return event.failure


def check_end(run: Lead, event: ev.Event) -> None:
    """Checks that the run ends with the failure that the event says, once no attempt is live."""
    failure = run.state.failure
    assert failure is not None
    assert not run.state.ended
    assert event == ev.CancelRequested("", failure.message, failure.reason, failure)
    run.result()
    after = run.state
    assert (after.ended, after.failure) == (True, failure)


def begun(**options: object) -> Lead:
    run = Lead(**options)  # type: ignore[arg-type]
    run.place(1)
    return run


# Time


def test_a_run_that_takes_too_long() -> None:
    run = begun()
    run.feed(inp.Pause("me"))
    run.now += 5.5
    run.feed(inp.Resume("me"))
    (cancel,) = run.after(600.25)
    check_end(run, cancel)
    assert told_all(run.state.failure) == (
        "DEADLINE_EXCEEDED",
        "RUN_TIMEOUT",
        "the run did not end within 600 s",
        {"budget": "time", "limit": "600", "spent": "600.250"},
    )


def test_a_run_that_is_paused_for_too_long() -> None:
    run = begun(pause_timeout=30.0)
    run.feed(inp.Pause("me"))
    assert run.after(29.0) == []
    (cancel,) = run.after(1.0)
    check_end(run, cancel)
    assert told_all(run.state.failure) == (
        "DEADLINE_EXCEEDED", "PAUSE_EXPIRED", "the run was paused for 30 s", {"limit": "30"},
    )  # fmt: skip


def test_a_run_that_waits_for_a_person_for_too_long() -> None:
    run = begun(pause_timeout=30.0)
    run.feed(inp.ResultIn("r.1", 1, TaskState.INPUT_REQUIRED, None, input_id="q"))
    run.after(30.0)
    assert told(run.state.failure) == (
        "DEADLINE_EXCEEDED",
        "PAUSE_EXPIRED",
        "the run waited for an answer of a person for 30 s",
    )


def test_a_delegated_task_that_takes_too_long() -> None:
    run = begun()
    run.delegate(timeout=2.5)
    run.place(2)
    (stopping,) = run.after(2.5)
    assert isinstance(stopping, ev.TaskStopping)
    assert told_all(stopping.failure) == (
        "DEADLINE_EXCEEDED", "DELEGATION_TIMEOUT", "helper did not answer within 2.5 s", {"role": "helper"},
    )  # fmt: skip


def test_a_cancelled_run_ends_after_its_grace() -> None:
    run = begun()
    (cancel,) = run.feed(inp.Cancel("me", ""))
    assert cancel == ev.CancelRequested("me", "cancelled on request")
    assert run.after(CANCEL_GRACE - 0.5) == []
    assert isinstance(run.after(0.5)[-1], ev.RunEnded)
    assert told(run.state.failure) == ("CANCELLED", "CANCELLED", "cancelled on request")


def test_a_run_is_cancelled_for_the_reason_of_its_caller() -> None:
    run = Lead()
    run.feed(inp.Cancel("me", "no longer needed"))
    assert told(run.state.failure) == ("CANCELLED", "CANCELLED", "no longer needed")


# Size


def test_a_run_whose_journal_is_full() -> None:
    run = begun()
    (cancel,) = run.feed(inp.JournalFull(12_345, 10_000))
    message = "the journal of the run has 12,345 bytes, at most 10,000 are allowed"
    check_end(run, cancel)
    assert told_all(run.state.failure) == (
        "RESOURCE_EXHAUSTED", "RUN_TOO_LARGE", message, {"limit": "10000", "size": "12345"},
    )  # fmt: skip
    assert run.feed(inp.JournalFull(12_345, 10_000)) == [], "it ends already"


def test_a_run_with_too_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_limit, "MAX_EVENTS", event_limit.RESERVED_EVENTS + 5)
    run = begun()
    run.delegate()
    run.delegate(role="other")
    assert isinstance(run.log[-1], ev.CancelRequested)
    message = f"the run has reached {event_limit.RESERVED_EVENTS + 5} events"
    assert told(run.state.failure) == ("RESOURCE_EXHAUSTED", "TOO_MANY_EVENTS", message)


# Attempts


def test_a_task_that_takes_its_process_with_it() -> None:
    run = Lead()
    tries = RECOVERY[Kind.LOST].tries
    for _ in range(tries):
        run.place(1)
        run.lose()
    assert told_all(run.state.failure) == (
        "ABORTED",
        "POISONED",
        f"{tries} attempts of lead ended with the loss of their process",
        {"role": "lead", "task_id": "r.1"},
    )


def test_an_attempt_that_is_given_back() -> None:
    run = begun()
    (event,) = run.feed(inp.LostIn("r.1", 1, GONE, on_purpose=True))
    assert isinstance(event, ev.Rejected)
    assert told_all(event.failure) == (
        "UNAVAILABLE",
        "DRAINING",
        "instance i was stopped on purpose",
        {"given_back": "true", "instance_id": "i"},
    )


def test_a_run_that_recovers_too_often() -> None:
    assert recovery_exhausted(ERROR_BUDGET - 1) is None
    assert told(recovery_exhausted(ERROR_BUDGET)) == (
        "RESOURCE_EXHAUSTED",
        "ERROR_BUDGET_EXHAUSTED",
        f"the run has recovered from {ERROR_BUDGET} lost and failed attempts, the most that a run may have",
    )


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        (TaskState.FAILED, ("UNKNOWN", "UNKNOWN", "the agent gave no reason")),
        (TaskState.REJECTED, ("UNKNOWN", "UNKNOWN", "the agent gave no reason")),
        (TaskState.CANCELED, ("CANCELLED", "CANCELLED", "the agent cancelled the task itself")),
        (TaskState.INPUT_REQUIRED, ("FAILED_PRECONDITION", INVALID[1], "a question to a person needs an input_id")),
        (
            TaskState.WORKING,
            ("UNIMPLEMENTED", "NOT_SERVED", "a result with state WORKING is not served by this orchestrator"),
        ),
    ],
)
def test_a_result_without_a_failure_of_its_own(state: TaskState, failure: tuple[str, ...]) -> None:
    run = begun()
    run.result(state=state)
    assert run.state.state is TaskState.FAILED
    assert told(run.state.failure) == failure


# Delegations


@pytest.mark.parametrize(
    ("options", "failure"),
    [
        ({"role": ""}, (*INVALID, "a delegation needs a role or a capability", {})),
        (
            {"role": "", "capability": "to sing"},
            ("NOT_FOUND", "UNKNOWN_CAPABILITY", "no instance offers 'to sing'", {"capability": "to sing"}),
        ),
        (
            {"available": False},
            ("NOT_FOUND", "UNKNOWN_ROLE", "no instance of the role 'helper'", {"role": "helper"}),
        ),
        (
            {"role": "lead"},
            (
                "FAILED_PRECONDITION",
                "DELEGATION_LOOP",
                "delegation loop: lead is already waiting for this task: lead -> lead",
                {"chain": "lead -> lead"},
            ),
        ),
        (
            {"budget": Budget(tokens=-1)},
            (*INVALID, "budget.max_tokens must not be negative", {"field": "budget.max_tokens"}),
        ),
        (
            {"budget": Budget(cost=-1)},
            (*INVALID, "budget.max_cost_micro_usd must not be negative", {"field": "budget.max_cost_micro_usd"}),
        ),
        (
            {"budget": Budget(depth=-1)},
            (*INVALID, "budget.max_depth must not be negative", {"field": "budget.max_depth"}),
        ),
    ],
)
def test_a_delegation_that_is_refused(options: dict[str, object], failure: tuple[object, ...]) -> None:
    assert told_all(refusal(begun().delegate(**options))) == failure  # type: ignore[arg-type]


def test_a_delegation_that_is_too_deep() -> None:
    run = begun(budget=Budget(depth=1))
    run.delegate()
    run.place(2)
    assert told_all(refusal(run.delegate(2, "deeper"))) == (
        "FAILED_PRECONDITION",
        "DELEGATION_TOO_DEEP",
        "delegations of this run can nest at most 1 deep",
        {"budget": "depth", "limit": "1", "max_depth": "1", "needed": "2"},
    )


def test_too_many_delegations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "MAX_DELEGATIONS", 2)
    run = begun()
    assert refusal(run.delegate(digest="a")) is None
    assert refusal(run.delegate(digest="b")) is None
    assert told(refusal(run.delegate(digest="c"))) == (
        "RESOURCE_EXHAUSTED",
        "TOO_MANY_DELEGATIONS",
        "a task can make at most 2 delegations",
    )


def test_what_ends_with_its_delegating_task() -> None:
    run = begun()
    run.delegate()
    run.delegate(role="other")
    run.place(3)
    run.cancel("d1")
    assert told(run.state.tasks["r.2"].failure) == (
        "CANCELLED",
        "CANCELLED",
        "the delegating task no longer needs the answer",
    )
    run = begun(roles=("lead", "last"))
    run.delegate()
    run.place(3)
    _, stopping = run.result()
    assert isinstance(stopping, ev.TaskStopping)
    assert told(stopping.failure) == ("CANCELLED", "CANCELLED", "the delegating task of lead has ended")


# Budgets


def test_a_request_above_the_budget_of_the_run() -> None:
    run = begun(budget=Budget(tokens=1_000, cost=8_000))
    failure = None
    (event,) = run.feed(inp.BudgetRequestIn("r.1", 1, "b", 0, Amount(5_000, 0)))
    assert isinstance(event, ev.BudgetReserved)
    failure = event.failure
    spent = run.state.tasks["r.1"].reserved.tokens
    assert told_all(failure) == (
        "RESOURCE_EXHAUSTED",
        "BUDGET_EXHAUSTED",
        f"insufficient budget of the run: {1_000 - spent:,} of 1,000 tokens left, lead needs 5,000",
        {
            "budget": "tokens",
            "limit": "1000",
            "needed": "5000",
            "role": "lead",
            "scope": "run",
            "spent": str(spent),
        },
    )


def test_a_task_above_the_budget_that_it_was_given() -> None:
    run = begun()
    run.delegate(budget=Budget(cost=2_000))
    run.place(2)
    (stopping,) = run.feed(inp.UsageIn("r.2", 1, Amount(0, 2_500)))
    assert isinstance(stopping, ev.TaskStopping)
    reserved = run.state.tasks["r.2"].reserved.cost
    assert told_all(stopping.failure) == (
        "RESOURCE_EXHAUSTED",
        "BUDGET_EXHAUSTED",
        f"insufficient budget of the task of helper: {2_000 - reserved:,} of 2,000 millionths of a US dollar left, "
        f"helper needs {2_500 - reserved:,}",
        {
            "budget": "cost",
            "limit": "2000",
            "needed": str(2_500 - reserved),
            "role": "helper",
            "scope": "helper",
            "spent": str(reserved),
        },
    )


def test_a_run_above_its_budget_is_ended() -> None:
    run = begun(budget=Budget(tokens=100))
    assert run.feed(inp.UsageIn("r.1", 1, Amount(100))) == []
    (cancel,) = run.feed(inp.UsageIn("r.1", 1, Amount(101)))
    check_end(run, cancel)
    assert run.state.failure is not None
    assert run.state.failure.reason == "BUDGET_EXHAUSTED"


# People


def asking(kind: QuestionKind, *approvers: str, timeout: float = 0.0) -> Lead:
    run = begun()
    run.feed(inp.AskIn("r.1", 1, 1, "q", None, 0, kind, QuestionTerms("a rule", approvers, timeout)))
    return run


@pytest.mark.parametrize(
    ("kind", "identity", "decision", "failure"),
    [
        (QuestionKind.INPUT, "me", Decision.UNSPECIFIED, None),
        (QuestionKind.APPROVAL, "me", Decision.APPROVE, None),
        (
            QuestionKind.INPUT,
            "you",
            Decision.UNSPECIFIED,
            ("PERMISSION_DENIED", "PERMISSION_DENIED", "you is no approver of question 'r.1/q'", {"input_id": "r.1/q"}),
        ),
        (
            QuestionKind.APPROVAL,
            "me",
            Decision.UNSPECIFIED,
            (*INVALID, "the question needs a decision: approve, reject or modify", {}),
        ),
        (QuestionKind.INPUT, "me", Decision.REJECT, (*INVALID, "the question needs an answer, not a decision", {})),
    ],
)
def test_an_answer_that_is_refused(
    kind: QuestionKind, identity: str, decision: Decision, failure: tuple[object, ...] | None
) -> None:
    run = asking(kind, "me")
    response = inp.Respond("r.1/q", identity, "", "00", decision=decision)
    found = answer_refusal(run.state, run.state.tasks["r.1"], response)
    assert (told_all(found) if found is not None else None) == failure
    assert bool(run.feed(response)) == (failure is None)


def test_a_question_that_is_not_answered_in_time() -> None:
    run = asking(QuestionKind.INPUT, timeout=4.5)
    timed_out, cancel = run.after(4.5)
    message = "question 'r.1/q' of lead was not answered within 4.5 s"
    assert isinstance(timed_out, ev.QuestionTimedOut)
    check_end(run, cancel)
    assert told_all(run.state.failure) == (
        "DEADLINE_EXCEEDED",
        "QUESTION_TIMED_OUT",
        message,
        {"input_id": "r.1/q", "limit": "4.5", "rule": "a rule"},
    )


def test_a_task_that_asks_too_much() -> None:
    twice = asking(QuestionKind.INPUT)
    twice.feed(inp.AskIn("r.1", 1, 2, "q2", None, 0, QuestionKind.INPUT, QuestionTerms("")))
    assert told(twice.state.failure) == (
        "FAILED_PRECONDITION",
        "INVALID_ARGUMENT",
        "a task can ask one question at a time",
    )
    often = begun()
    for number in range(MAX_QUESTIONS):
        often.feed(inp.AskIn("r.1", 1, 2 * number + 1, f"q{number}", None, 0, QuestionKind.INPUT, QuestionTerms("")))
        assert often.feed(inp.Respond(f"r.1/q{number}", "me", "", "00"))
    often.feed(inp.AskIn("r.1", 1, 999, "q", None, 0, QuestionKind.INPUT, QuestionTerms("")))
    assert told(often.state.failure) == (
        "FAILED_PRECONDITION",
        "INVALID_ARGUMENT",
        f"a task can ask people at most {MAX_QUESTIONS} questions",
    )


# Plans


def edit(run: PlanRun, *steps: SubTask, seq: int | None = None) -> Failure | None:
    plan = run.state.plan
    assert plan is not None
    return edit_refusal(run.state, inp.EditPlan("me", "", plan.seq if seq is None else seq, plan_of(*steps)))


def test_an_edit_that_is_refused() -> None:
    a, b, c = step("a"), step("b", "a"), step("c")
    early = PlanRun()
    assert told(edit(early, a)) == ("FAILED_PRECONDITION", "FAILED_PRECONDITION", "the run has no plan")
    run = PlanRun(a, b, c)
    assert run.state.plan is not None
    seq = run.state.plan.seq
    assert told_all(edit(run, a, seq=1)) == (
        "ABORTED",
        "ABORTED",
        f"event {seq} changed the plan last, not 1: read it again",
        {"change_seq": str(seq)},
    )
    run.begin("a", "c")
    message = "the edit changes steps that have begun: a, c"
    assert told(edit(run, replace(a, description="Other."))) == ("FAILED_PRECONDITION", "FAILED_PRECONDITION", message)
    assert edit(run, a, c, b) is None
    faulty = edit(run, a, c, step("d", "nowhere"))
    assert told(faulty) == (*INVALID, "subtask 'd' depends on 'nowhere', which is no subtask")
    assert faulty is not None
    assert faulty.violations == (("d", "subtask 'd' depends on 'nowhere', which is no subtask"),)
    run.complete("a", "b", "c")
    assert told(edit(run, a)) == ("FAILED_PRECONDITION", "FAILED_PRECONDITION", "all steps of the plan have ended")


def test_an_edit_that_builds_on_a_failed_step() -> None:
    run = PlanRun(step("a"), step("b"))
    run.fail("a")
    assert told(edit(run, step("a"), step("b"), step("c", "a"))) == (
        *INVALID,
        "subtask 'c' depends on 'a', which failed",
    )


def test_a_step_whose_input_is_missing_is_skipped() -> None:
    run = PlanRun(step("a"), step("b", "a"), step("c", "b"), step("d"))
    run.fail("a")
    for name, source in (("b", "a"), ("c", "b")):
        assert told_all(run.task(name).failure) == (
            "CANCELLED",
            "CANCELLED",
            f"skipped: step '{source}', whose result it needs, did not complete",
            {"step_id": source},
        )


def test_a_step_that_a_new_plan_does_not_have() -> None:
    run = PlanRun(step("a"), step("b"))
    old = run.task("b").task_id
    assert run.state.plan is not None
    run.feed(inp.EditPlan("me", "", run.state.plan.seq, plan_of(step("a"))))
    assert told(run.state.tasks[old].failure) == (
        "CANCELLED",
        "CANCELLED",
        "revision 2 of the plan replaces the step",
    )


def test_a_reply_that_is_no_plan() -> None:
    run = PlanRun()
    run.begin("r.1")
    (retried,) = run.reply(step("a", "b"), step("b", "a"))
    assert isinstance(retried, ev.Retried)
    message = "the planner's reply cannot be executed: the subtasks depend on each other in a circle: a -> b -> a"
    assert told(retried.failure) == ("FAILED_PRECONDITION", "PLAN_FAILED", message)
    assert retried.failure.kind == "planning.cycle"


def test_a_planner_that_replies_with_no_plan() -> None:
    run = PlanRun()
    run.begin("r.1")
    run.feed(inp.ResultIn("r.1", 1, TaskState.COMPLETED, "text"))
    assert told(run.state.failure) == ("FAILED_PRECONDITION", "PLAN_FAILED", "the planner's reply holds no plan")


def test_a_run_whose_steps_fail() -> None:
    run = PlanRun(step("a"), step("b", "a"))
    run.fail("a")
    assert told_all(run.state.failure) == (
        "FAILED_PRECONDITION",
        "PLAN_FAILED",
        "no step of the plan completed",
        {
            "failed_steps": "a",
            "replans": "0",
            "suggestion": "submit a simpler goal, or one goal for each part of it",
        },
    )


def test_a_run_whose_plan_was_made_anew_too_often() -> None:
    run = PlanRun(step("a", critical=True))
    for _ in range(MAX_REPLANS):
        run.fail("a")
        assert run.state.plan is not None
        run.begin(run.state.plan.planner)
        run.reply(step("a", critical=True))
    run.fail("a")
    assert told_all(run.state.failure) == (
        "FAILED_PRECONDITION",
        "PLAN_FAILED",
        f"step 'a' of the plan failed after {MAX_REPLANS} replans",
        {
            "failed_steps": "a",
            "replans": str(MAX_REPLANS),
            "suggestion": "submit a simpler goal, or one goal for each part of it",
        },
    )
    assert run.state.failure is not None
    assert run.state.failure.kind == "planning.deadlock"


def test_a_run_whose_plan_was_expanded_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_plan, "MAX_EXPANSIONS", 1)
    run = PlanRun(step("x", role="", expand=True))
    assert run.state.plan is not None
    run.begin(run.state.plan.planner)
    run.reply(step("y", role="", expand=True))
    assert told(run.state.failure) == (
        "FAILED_PRECONDITION",
        "PLAN_FAILED",
        "the plan was expanded 1 times, the most that a run may have",
    )


def test_a_step_that_an_expansion_replaces() -> None:
    run = PlanRun(step("x", role="", expand=True))
    place = run.task("x").task_id
    assert run.state.plan is not None
    run.begin(run.state.plan.planner)
    run.reply(step("y"))
    assert told(run.state.tasks[place].failure) == (
        "CANCELLED",
        "CANCELLED",
        "revision 2 of the plan has its steps instead",
    )


def test_a_turn_that_cannot_be_stored() -> None:
    run = Lead(session_context=(SessionContextRef("lead", 1, ("lead",)),))
    run.feed(inp.SlotFound("r.1", "i", 4))
    (retried,) = run.feed(inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, has_turn=True, version_conflict=True))
    assert isinstance(retried, ev.Retried)
    assert told_all(retried.failure) == (
        "ABORTED",
        "CONVERSATION_MOVED",
        "conflict 1 in the conversation of lead in session s: another turn was stored first",
        {"role": "lead", "session_id": "s"},
    )
    run.feed(inp.SlotFound("r.1", "i", 5))
    run.feed(inp.ResultIn("r.1", 2, TaskState.COMPLETED, None, has_turn=True, turn_too_large=True))
    assert told(run.state.failure) == (
        "RESOURCE_EXHAUSTED",
        "MESSAGE_TOO_LARGE",
        "the turn of lead is too large for its conversation",
    )


# Journals of earlier revisions


@pytest.mark.parametrize(
    ("cause", "code", "state"),
    [
        ("CANCELLED", "CANCELLED", TaskState.CANCELED),
        ("RUN_TIMEOUT", "DEADLINE_EXCEEDED", TaskState.FAILED),
        ("PAUSE_EXPIRED", "DEADLINE_EXCEEDED", TaskState.FAILED),
        ("QUESTION_TIMED_OUT", "DEADLINE_EXCEEDED", TaskState.FAILED),
        ("TOO_MANY_EVENTS", "RESOURCE_EXHAUSTED", TaskState.FAILED),
        ("RUN_TOO_LARGE", "RESOURCE_EXHAUSTED", TaskState.FAILED),
        ("BUDGET_EXHAUSTED", "RESOURCE_EXHAUSTED", TaskState.FAILED),
        ("APPROVAL_REJECTED", "FAILED_PRECONDITION", TaskState.FAILED),
        ("PLAN_FAILED", "FAILED_PRECONDITION", TaskState.FAILED),
    ],
)
def test_an_end_that_was_journaled_without_its_failure(cause: str, code: str, state: TaskState) -> None:
    run = PlanRun(step("a"))
    apply(run.state, ev.CancelRequested("", "why", cause), run.now)
    assert told(run.state.failure) == (code, cause, "why")
    assert run.state.ending is state
