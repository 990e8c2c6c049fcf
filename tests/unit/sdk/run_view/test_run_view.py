"""The view of a run: what each kind of event changes."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2, plan_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import (
    Attempt,
    Delegation,
    Failure,
    LastFailure,
    Outcome,
    Question,
    RunView,
    TaskState,
    Usage,
    Wait,
    WaitKind,
)
from archon.types import RunEvent
from tests.unit.services.cli.render.run_events import (
    COMPLETED,
    SUBMITTED,
    created,
    delegated,
    dispatched,
    event,
    numbered,
    opening,
    rejected,
    result,
    view_of,
)

FAILED, CANCELED = common_pb2.TASK_STATE_FAILED, common_pb2.TASK_STATE_CANCELED
CHILD = [delegated("t1", "cook", "t2"), created("t2", "cook", "t1")]


def last(view: RunView, task_id: str = "t1") -> Attempt:
    attempt = view.tasks[task_id].attempt
    assert attempt is not None
    return attempt


def failing(payload: object, message: str = "it broke", kind: str = "tool.crash") -> object:
    payload.failure.message, payload.failure.kind = message, kind  # type: ignore[attr-defined]
    return payload


def asked(number: int = 1, *, sequence: int = 0, at: int = 110) -> run_pb2.RunEvent:
    prompt = [common_pb2.Part(text="Which?")]
    kind = question_pb2.QUESTION_KIND_APPROVAL
    payload = run_pb2.InputRequested(input_id=f"t1/q{number}", role="lead", prompt=prompt, sequence=sequence, kind=kind)
    return event("t1", 1, at, input_requested=payload)


def answered(number: int = 1, at: int = 115) -> run_pb2.RunEvent:
    payload = run_pb2.InputGiven(input_id=f"t1/q{number}", identity="ann", decision=question_pb2.DECISION_REJECT)
    payload.parts.add(text="too expensive")
    return event("t1", 0, at, input_given=payload)


def ended(state: common_pb2.TaskState.ValueType = COMPLETED, at: int = 120) -> run_pb2.RunEvent:
    return event(at=at, run_state=run_pb2.RunStateChanged(state=state))


def test_a_run_goes_from_submitted_to_its_end() -> None:
    view, states = RunView(), list[TaskState]()
    for each in (*opening(), *numbered(result("t1", "lead"), ended())):
        view.apply(RunEvent(each))
        states.append(view.state)
    assert [str(state) for state in states] == ["submitted", "submitted", "working", "working", "completed"]
    assert (view.run_id, view.strategy, view.started, view.ended) == ("r", "agent", 100, 120)
    task = view.tasks["t1"]
    assert (task.role, task.created, task.ended, task.final) == ("lead", 100, 103, True)
    assert task.attempts == [Attempt(1, "lead-x", 101, 103, Outcome.COMPLETED)]


def test_states_have_display_names() -> None:
    assert str(TaskState.INPUT_REQUIRED) == "input required"
    assert [state for state in TaskState if state.final] == ["completed", "failed", "canceled", "rejected"]
    assert {state.name for state in TaskState} >= {
        name.removeprefix("TASK_STATE_") for name, _ in common_pb2.TaskState.items()
    }
    unknown = event("t1", 1, task_state=run_pb2.TaskStateChanged(state=77))  # type: ignore[arg-type]
    assert view_of(unknown).tasks["t1"].state is TaskState.UNKNOWN


@pytest.mark.parametrize("again", [1, 2])
def test_an_event_that_was_applied_changes_nothing(again: int) -> None:
    ask, answer = numbered(asked(), answered())
    view, other = view_of(), view_of()
    for each in (ask, answer, *[ask, answer] * again):
        view.apply(RunEvent(each))
    for each in (ask, answer):
        other.apply(RunEvent(each))
    assert view == other
    assert (len(view.tasks["t1"].questions), view.last_seq) == (1, answer.seq)


def test_events_of_unknown_kinds_change_nothing_else() -> None:
    view, other = view_of(), view_of()
    unknown = run_pb2.RunEvent(run_id="r", seq=view.last_seq + 1)
    unknown.task.task_id = "t9"
    view.apply(RunEvent(unknown))
    other.last_seq = view.last_seq
    assert view == other
    view.apply(RunEvent(run_pb2.RunEvent(tool_arguments_delta=run_pb2.ToolArgumentsDelta(role="lead", text="{"))))
    view.apply(RunEvent(event("t1", recorded=run_pb2.Recorded(count=1))))
    other.last_seq = view.last_seq
    assert view == other


def test_text_of_an_earlier_attempt_is_dropped() -> None:
    def delta(attempt: int, offset: int, text: str) -> run_pb2.RunEvent:
        return run_pb2.RunEvent(
            task=common_pb2.TaskRef(task_id="t1", attempt=attempt),
            text_delta=run_pb2.TextDelta(offset=offset, text=text),
        )

    lost = event("t1", lost=failing(run_pb2.Lost(instance_id="lead-x")))
    view = view_of(delta(1, 0, "öne "), lost)
    task = view.tasks["t1"]
    assert (task.text, task.written, task.state) == ("öne ", 5, TaskState.SUBMITTED)
    for later in (*numbered(dispatched("t1", "lead", 2)), delta(2, 0, "two"), delta(1, 4, "late")):
        view.apply(RunEvent(later))
    assert (last(view).number, task.text, task.written) == (2, "two", 3)
    view.apply(RunEvent(delta(2, 3, "x" * 5_000)))
    assert (len(task.text), task.written) == (2_000, 5_003)


def test_thinking_lasts_until_text_or_a_tool_call_follows() -> None:
    def thinking(text: str, attempt: int = 1) -> run_pb2.RunEvent:
        return event("t1", attempt, thinking_delta=run_pb2.ThinkingDelta(text=text))

    view = view_of(thinking("let "), thinking("me see"), thinking("old", attempt=7))
    task = view.tasks["t1"]
    assert task.thinking == "let me see"
    view.apply(RunEvent(event("t1", text_delta=run_pb2.TextDelta(text="so"))))
    assert (task.thinking, task.text) == ("", "so")
    view.apply(RunEvent(thinking("x" * 100_000)))
    assert len(task.thinking) == 2_000
    view.apply(RunEvent(event("t1", tool_event=run_pb2.ToolActivity(call_id="1", tool_name="look"))))
    assert (task.thinking, task.tool_calls) == ("", {"1": "look"})
    view.apply(RunEvent(event("t1", tool_event=run_pb2.ToolActivity(call_id="1", tool_name="look", result_json="2"))))
    assert task.tool_calls == {}


@pytest.mark.parametrize(
    ("kind", "payload", "outcome", "instance_id", "delay"),
    [
        ("lost", run_pb2.Lost(instance_id="lead-x"), Outcome.LOST, "lead-x", 0),
        ("rejected", run_pb2.RejectedByInstance(instance_id="lead-x"), Outcome.REJECTED, "lead-x", 5),
        ("given_back", run_pb2.RejectedByInstance(instance_id="lead-x"), Outcome.GIVEN_BACK, "lead-x", 5),
        ("retry", run_pb2.RetryScheduled(usage=common_pb2.Usage(output_tokens=7)), Outcome.RETRIED, "", 5),
    ],
)
def test_an_attempt_that_ends_without_a_result_is_followed(
    kind: str, payload: run_pb2.RetryScheduled, outcome: Outcome, instance_id: str, delay: float
) -> None:
    failing(payload)
    if kind == "given_back":
        payload.failure.metadata[kind] = "true"
    if delay:
        payload.not_before.seconds = 110
    view = view_of(event("t1", 1, 105, **{"rejected" if kind == "given_back" else kind: payload}))
    task, attempt = view.tasks["t1"], last(view)
    failure = Failure("tool.crash", "it broke", metadata=dict(payload.failure.metadata))
    assert (attempt.outcome, attempt.ended, attempt.failure) == (outcome, 105, failure)
    assert attempt.retry_time == (110 if delay else 0)
    assert task.last_failure == LastFailure(outcome, failure, instance_id, delay)
    assert (task.state, task.failure) == (TaskState.SUBMITTED, None)
    assert task.usage.output_tokens == (7 if kind == "retry" else 0)
    view.apply(*map(RunEvent, numbered(dispatched("t1", "lead", 2))))
    assert [(attempt.number, attempt.outcome) for attempt in task.attempts] == [(1, outcome), (2, Outcome.WORKING)]
    assert view.state is TaskState.WORKING


def test_a_failed_task_keeps_its_failure_until_it_completes() -> None:
    failure = Failure("tool.crash", "it broke")
    failed = event("t1", 1, 103, result=failing(run_pb2.ResultReceived(state=FAILED)))
    task = view_of(failed).tasks["t1"]
    assert (task.state, task.failure, task.attempts[0].failure) == (TaskState.FAILED, failure, failure)
    retry = event("t1", retry=failing(run_pb2.RetryScheduled()))
    view = view_of(retry, dispatched("t1", "lead", 2))
    assert view.tasks["t1"].last_failure is not None
    view.apply(*map(RunEvent, numbered(event("t1", 2, result=run_pb2.ResultReceived(state=COMPLETED)))))
    assert view.tasks["t1"].last_failure is None


def test_a_task_that_ends_without_a_result_ends_its_attempt() -> None:
    stopping = run_pb2.TaskStateChanged(state=common_pb2.TASK_STATE_WORKING, stopping=True)
    view = view_of(event("t1", 1, 104, task_state=failing(stopping, "too late")))
    task = view.tasks["t1"]
    assert (task.state, task.stopping) == (TaskState.WORKING, Failure("tool.crash", "too late"))
    assert last(view).stopping == task.stopping
    view.apply(RunEvent(event("t1", 1, 105, task_state=failing(run_pb2.TaskStateChanged(state=CANCELED)))))
    assert (task.state, task.ended, last(view).ended, last(view).outcome) == ("canceled", 105, 105, "canceled")


def test_a_result_that_is_discarded_counts_what_it_took() -> None:
    lost = event("t1", 1, 104, lost=run_pb2.Lost(instance_id="lead-x"))
    late = run_pb2.DiscardedResult(usage=common_pb2.Usage(input_tokens=5, model_calls=1))
    view = view_of(lost, dispatched("t1", "lead", 2), event("t1", 1, 109, discarded=late))
    first, second = view.tasks["t1"].attempts
    assert (first.discarded, first.ended, first.outcome, second.discarded) == (True, 104, Outcome.LOST, False)
    assert first.usage == view.tasks["t1"].usage == view.usage == Usage(input_tokens=5, model_calls=1)


def test_usage_is_added_and_negative_counts_read_as_zero() -> None:
    assert Usage(1, 2, 3, 4, 5, 6, 7, True) + Usage(10, 20, 30, 40, 50, 60, 70) == Usage(
        11, 22, 33, 44, 55, 66, 77, True
    )
    payload = run_pb2.ResultReceived(state=COMPLETED, usage=common_pb2.Usage(input_tokens=-5, output_tokens=3))
    assert view_of(event("t1", result=payload)).usage == Usage(output_tokens=3)


def test_a_question_stops_the_run_until_its_answer() -> None:
    view = view_of(asked())
    task = view.tasks["t1"]
    (question,) = view.questions
    assert (view.state, task.state, last(view).outcome) == ("input required", "input required", Outcome.ASKED)
    assert (question.input_id, question.role, question.text) == ("t1/q1", "lead", "Which?")
    assert (question.is_approval, question.asked, question.attempt, question.answer) == (True, 110, 1, None)
    assert view.waiting_for(task) == Wait(WaitKind.PERSON)
    view.apply(RunEvent(answered()))
    assert (view.questions, view.state, task.state) == ([], TaskState.WORKING, TaskState.SUBMITTED)
    assert (question.answer, question.decision, question.identity) == ("too expensive", "reject", "ann")
    assert (question.ended, task.question, task.notes) == (115, None, [question])


def test_a_question_of_an_attempt_that_continues_does_not_end_it() -> None:
    view = view_of(asked(sequence=3))
    assert (view.state, last(view).ended, view.tasks["t1"].questions[0].continues) == ("input required", 0, True)
    view.apply(RunEvent(answered()))
    assert (view.questions, view.tasks["t1"].state) == ([], TaskState.WORKING)


@pytest.mark.parametrize(("kind", "is_open"), [("lost", True), ("rejected", True), ("retry", False)])
def test_a_question_outlives_a_lost_attempt(kind: str, is_open: bool) -> None:
    payload = {"lost": run_pb2.Lost(), "rejected": run_pb2.RejectedByInstance(), "retry": run_pb2.RetryScheduled()}
    view = view_of(asked(sequence=3), event("t1", 1, 112, **{kind: payload[kind]}))
    task = view.tasks["t1"]
    assert (len(view.questions), task.questions[0].ended) == ((1, 0) if is_open else (0, 112))
    view.apply(RunEvent(answered(at=114)))
    assert (task.state, view.waiting_for(task)) == (TaskState.SUBMITTED, Wait(WaitKind.INSTANCE))


def test_a_task_that_is_stopped_asks_no_longer_and_ends_with_its_attempt() -> None:
    stopping = run_pb2.TaskStateChanged(state=common_pb2.TASK_STATE_WORKING, stopping=True)
    called = event("t1", tool_event=run_pb2.ToolActivity(call_id="1", tool_name="look"))
    view = view_of(called, asked(sequence=3), event("t1", 1, 112, task_state=failing(stopping, "too late")))
    task = view.tasks["t1"]
    assert (view.questions, task.state, view.stopped_for(200), task.tool_calls) == ([], "working", 2, {"1": "look"})
    view.apply(RunEvent(event("t1", 1, 113, discarded=run_pb2.DiscardedResult())))
    assert (task.state, task.ended, task.failure) == (TaskState.CANCELED, 113, Failure("tool.crash", "too late"))
    assert (last(view).ended, last(view).discarded, task.tool_calls) == (113, True, {})


def test_the_same_question_is_asked_again() -> None:
    view = view_of(asked(), answered(), dispatched("t1", "lead", 2), asked(at=116))
    first, second = view.tasks["t1"].questions
    assert (first.answer, second.answer, view.questions) == ("too expensive", None, [second])


def test_a_time_out_is_noted_and_the_next_approver_is_asked() -> None:
    late = run_pb2.QuestionTimedOut(input_id="t1/q1", rule="r1", policy=question_pb2.TIMEOUT_POLICY_ESCALATE)
    view = view_of(asked(), event("t1", 0, question_timed_out=late))
    (question,) = view.questions
    assert (question.timed_out, question.rule) == ("escalate", "r1")
    view.apply(RunEvent(answered()))
    first, second = view.tasks["t1"].notes
    assert isinstance(first, Question)
    assert isinstance(second, Question)
    assert (first.answer, second.answer) == (None, "too expensive"), "as they were at the time"


def test_an_approval_waits_with_the_result_of_its_attempt() -> None:
    usage = common_pb2.Usage(output_tokens=9)
    held = run_pb2.ResultReceived(role="lead", state=COMPLETED, usage=usage)
    payload = run_pb2.ApprovalRequested(input_id="t1/a", prompt=[common_pb2.Part(text="Good?")], result=held)
    view = view_of(event("t1", 1, 104, approval_requested=payload))
    (question,) = view.questions
    assert (question.role, question.text, question.is_approval) == ("lead", "Good?", True)
    given = run_pb2.InputGiven(input_id="t1/a", decision=question_pb2.DECISION_APPROVE)
    view.apply(RunEvent(event("t1", 0, 106, input_given=given)))
    view.apply(RunEvent(event("t1", 1, 106, result=held)))
    task = view.tasks["t1"]
    assert (task.state, last(view).outcome, last(view).ended) == ("completed", Outcome.ASKED, 104)
    assert task.usage == Usage(output_tokens=9), "the result says it again"


def test_answers_to_unknown_questions_are_no_error() -> None:
    view = view_of(answered(7))
    assert view.tasks["t1"].notes == [
        Question("t1/q7", "lead", ended=115, answer="too expensive", decision="reject", identity="ann")
    ]


def test_delegations_belong_to_their_attempt() -> None:
    view = view_of(*CHILD, rejected("t1", "lead", "a loop"))
    first, refused = last(view).delegations
    assert first == Delegation("d1", "t2", "cook", 102)
    assert (refused.refusal, view.tasks["t1"].notes) == (Failure("", "a loop"), [refused])
    assert view.waiting_for(view.tasks["t1"]) == Wait(WaitKind.TASKS, ("cook",))
    cancel = run_pb2.DelegationCancelled(delegation_id="d1")
    view.apply(RunEvent(event("t1", 1, 107, delegation_cancelled=cancel)))
    assert (first.cancelled, view.waiting_for(view.tasks["t1"])) == (107, None)


def test_a_later_attempt_delegates_to_the_same_task() -> None:
    again = delegated("t1", "cook", "t2", attempt=2)
    view = view_of(*CHILD, dispatched("t1", "lead", 2), again)
    assert [attempt.delegations[0].repeated for attempt in view.tasks["t1"].attempts] == [False, True]
    assert view.waiting_for(view.tasks["t2"]) == Wait(WaitKind.INSTANCE)


def test_roles_wait_along_the_edges() -> None:
    edges = [common_pb2.Edge(upstream="a", downstream="c"), common_pb2.Edge(upstream="b", downstream="c")]
    view = RunView()
    for each in (event(submitted=run_pb2.Submitted(edges=edges)), *(created(role, role) for role in "abc")):
        view.apply(RunEvent(each))
    a, b, c = view.tasks.values()
    assert (view.predecessors(c), view.waiting_for(c)) == ([a, b], Wait(WaitKind.TASKS, ("a", "b")))
    view.apply(RunEvent(result("a", "a")))
    assert view.waiting_for(c) == Wait(WaitKind.TASKS, ("b",))
    view.apply(RunEvent(event(at=104, paused=run_pb2.RunPaused())))
    assert (view.waiting_for(b), view.waiting_for(a)) == (Wait(WaitKind.RESUME), None)


def test_steps_wait_for_the_tasks_that_they_name() -> None:
    view = RunView()
    for task_id, step_id, predecessors in [("t1", "a", ()), ("t2", "b", ()), ("t3", "c", ("t1",))]:
        new = run_pb2.TaskStateChanged(role="writer", state=SUBMITTED, step_id=step_id, predecessors=predecessors)
        view.apply(RunEvent(event(task_id, 0, task_state=new)))
    tasks = [*view.tasks.values()]
    assert [task.label for task in tasks] == ["writer (a)", "writer (b)", "writer (c)"]
    assert [view.predecessors(task) for task in tasks] == [[], [], [tasks[0]]]


def test_a_plan_has_steps_and_its_tasks_purposes() -> None:
    plan = plan_pb2.Plan(revision=1, goal="a trip")
    plan.steps.add(step_id="flight", description="Book.", role="clerk", tool_name="book", dependencies=["city"])
    check = run_pb2.TaskStateChanged(role="planner", state=SUBMITTED, align=True)
    answer = run_pb2.TaskStateChanged(role="planner", state=SUBMITTED, predecessors=["p2"])
    step = run_pb2.TaskStateChanged(role="clerk", state=SUBMITTED, step_id="flight")
    view = RunView()
    for each in (
        event(submitted=run_pb2.Submitted(strategy=run_pb2.STRATEGY_PLAN)),
        created("p1", "planner"),
        event("p1", 1, planned=run_pb2.Planned(plan=plan, reason="it strays")),
        event("p2", 0, task_state=step),
        event("p3", 0, task_state=check),
        event("p4", 0, task_state=answer),
    ):
        view.apply(RunEvent(each))
    assert view.plan is not None
    assert (view.plan.revision, view.plan.goal, view.plan.reason) == (1, "a trip", "it strays")
    assert [task.label for task in view.tasks.values()] == [
        *("planner (plan 1)", "clerk (flight)", "planner (check of plan 1)", "planner (answer)")
    ]
    assert view.tasks["p2"].step == view.plan.steps[0]
    assert (view.plan.steps[0].tool_name, view.plan.steps[0].dependencies) == ("book", ("city",))


def test_pauses_claims_and_the_cancellation_are_kept() -> None:
    view = view_of(
        event(at=104, paused=run_pb2.RunPaused()),
        event(at=106, resumed=run_pb2.RunResumed()),
        event(at=107, claimed=run_pb2.Claimed(owner="o2", epoch=2)),
        event(at=108, claimed=run_pb2.Claimed(owner="o2", epoch=3)),
        event(at=109, cancel_requested=run_pb2.CancelRequested(identity="ann", reason="enough")),
        event(at=110, paused=run_pb2.RunPaused()),
    )
    assert [(pause.started, pause.ended) for pause in view.pauses] == [(104, 106), (110, 0)]
    assert [(claim.time, claim.epoch, claim.previous) for claim in view.claims] == [(107, 2, ""), (108, 3, "o2")]
    assert (view.cancel_requested, view.cancel_reason) == (109, "enough")
    assert (view.paused, view.owner, view.elapsed(120), view.stopped_for(120)) == (True, "o2", 8, 12)
    view.apply(RunEvent(ended(CANCELED, 125)))
    assert (view.paused, view.tasks["t1"].state, last(view).outcome) == (False, "canceled", "canceled")
    assert (view.elapsed(500), view.stopped_for(500)) == (8, 17)


def test_the_end_of_a_run_ends_what_it_interrupts() -> None:
    view = view_of(
        *CHILD,
        dispatched("t2", "cook"),
        asked(),
        event(at=120, run_state=failing(run_pb2.RunStateChanged(state=FAILED))),
    )
    assert (view.state, view.failure) == (TaskState.FAILED, Failure("tool.crash", "it broke"))
    assert [(task.state, task.ended) for task in view.tasks.values()] == [("canceled", 120)] * 2
    assert (last(view, "t2").ended, view.questions, view.tasks["t1"].questions[0].ended) == (120, [], 120)
    assert view.waiting_for(view.tasks["t1"]) is None


def test_versions_checkpoints_and_refused_budgets_are_noted() -> None:
    saved = event("t1", checkpoint=run_pb2.CheckpointTaken(size=1234))
    view = view_of(saved, event("t1", budget_reserved=run_pb2.BudgetReserved()))
    task = view.tasks["t1"]
    assert (task.checkpoint_bytes, last(view).budget_refused) == (1234, True)
    assert task.last_failure == LastFailure(Outcome.WORKING, Failure())
    view.apply(RunEvent(result("t1", "lead")))
    ref = common_pb2.MemoryRef(seq=task.result_seq, version=3)
    view.apply(RunEvent(event("t1", published=run_pb2.PublishedToMemory(ref=ref))))
    assert (task.result_seq, task.version) == (view.last_seq - 1, 3)


def test_an_attempt_names_the_answers_that_it_was_given() -> None:
    dispatch = dispatched("t1", "lead", 2)
    dispatch.dispatched.given.add(scope="s", role="requirements", version=2)
    dispatch.dispatched.given.add(run_id="r", role="critic", seq=4)
    assert last(view_of(dispatch)).given == (("requirements", True), ("critic", False))


def test_a_reused_answer_has_no_attempt() -> None:
    view = view_of(created("t2", "cook"), event("t2", 0, result=run_pb2.ResultReceived(state=COMPLETED)))
    task = view.tasks["t2"]
    assert (task.reused, task.attempt, task.state) == (True, None, TaskState.COMPLETED)


def test_a_run_without_its_session_context_says_why() -> None:
    submitted = run_pb2.Submitted(owner="o1")
    submitted.session_context_failure.message = "memory is down"
    view = view_of(event(submitted=submitted))
    assert (view.session_context_failure, view.owner) == (Failure("", "memory is down"), "o1")
