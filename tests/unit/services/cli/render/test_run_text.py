"""Texts for the state of a run and its tasks, and for their events."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import RunEvent
from archon_services.cli.render.run_text import run_event_text, task_event_text, task_notes, task_text, waiting_text
from archon_services.reports.state_names import state_name
from tests.unit.services.cli.render.run_events import COMPLETED, event, numbered

ROLES = ("requirements", "designer")


def view_of(*events: run_pb2.RunEvent) -> RunView:
    """A run of two roles, the second of which depends on the first."""
    view = RunView()
    edges = [common_pb2.Edge(upstream="requirements", downstream="designer")]
    tasks = [
        event(role, 0, task_state=run_pb2.TaskStateChanged(role=role, state=common_pb2.TASK_STATE_SUBMITTED))
        for role in ROLES
    ]
    for applied in numbered(event(submitted=run_pb2.Submitted(edges=edges)), *tasks, *events):
        view.apply(RunEvent(applied))
    return view


def dispatched(task: str, attempt: int = 1, at: int = 101) -> run_pb2.RunEvent:
    return event(task, attempt, at, dispatched=run_pb2.Dispatched(role=task, instance_id=f"{task}-{attempt}"))


def delta(task: str, attempt: int, offset: int, text: str) -> run_pb2.RunEvent:
    return event(task, attempt, text_delta=run_pb2.TextDelta(role=task, offset=offset, text=text))


def result(task: str, at: int = 103) -> run_pb2.RunEvent:
    usage = common_pb2.Usage(output_tokens=1200, estimated=True)
    return event(task, 1, at, result=run_pb2.ResultReceived(role=task, state=COMPLETED, usage=usage))


def test_task_waits_for_its_upstream_then_for_an_instance() -> None:
    view = view_of()
    assert waiting_text(view, view.tasks["designer"]) == "waiting for requirements"
    assert waiting_text(view, view.tasks["requirements"]) == "waiting for an instance of requirements"
    view.apply(RunEvent(dispatched("requirements")))
    assert waiting_text(view, view.tasks["requirements"]) == ""
    view.apply(RunEvent(result("requirements")))
    assert waiting_text(view, view.tasks["designer"]) == "waiting for an instance of designer"


def test_a_lost_attempt_is_a_note_of_its_task() -> None:
    lost = run_pb2.Lost(instance_id="requirements-1")
    lost.failure.message = "it was silent"
    view = view_of(dispatched("requirements"), event("requirements", lost=lost))
    task = view.tasks["requirements"]
    assert [*task_notes(task)] == ["requirements-1 lost: it was silent"]
    assert waiting_text(view, task) == "waiting for an instance of requirements"


def test_tokens_are_estimated_from_bytes_until_the_result() -> None:
    view = view_of(dispatched("requirements"), delta("requirements", 1, 0, "äöü" * 10))
    assert "  ~15 tokens" in task_text(view, view.tasks["requirements"])
    view.apply(RunEvent(result("requirements")))
    assert "  ~1,200 tokens" in task_text(view, view.tasks["requirements"])


def test_a_cancellation_without_a_reason_says_so() -> None:
    for reason, text in (("enough", "cancelling: enough"), ("", "cancelling: no reason given")):
        cancel = event(cancel_requested=run_pb2.CancelRequested(reason=reason))
        assert run_event_text(view_of(cancel), cancel) == text


def test_unknown_state_is_no_error() -> None:
    assert state_name(77) == "unknown"  # type: ignore[arg-type]


def test_retry_has_its_delay_and_the_failure() -> None:
    retry = run_pb2.RetryScheduled(role="requirements")
    retry.failure.message, retry.not_before.seconds = "too many requests", 107
    view = view_of(dispatched("requirements"), event("requirements", at=105, retry=retry))
    task = view.tasks["requirements"]
    assert (task.state, [*task_notes(task)]) == ("submitted", ["failed, retry in 2.00 s: too many requests"])


def test_a_refusal_of_a_role_and_of_an_instance_differ() -> None:
    payload = run_pb2.RejectedByInstance(instance_id="requirements-1")
    payload.failure.message = "no"
    view = view_of(dispatched("requirements"), event("requirements", rejected=payload))
    assert [*task_notes(view.tasks["requirements"])] == ["rejected by requirements-1: no"]
    refused = run_pb2.ResultReceived(role="requirements", state=common_pb2.TASK_STATE_REJECTED)
    refused.failure.message = "not my work"
    view = view_of(dispatched("requirements"), event("requirements", result=refused))
    assert [*task_notes(view.tasks["requirements"])] == ["not my work"]


def test_missing_session_context_and_given_context_are_shown() -> None:
    submitted = run_pb2.Submitted()
    submitted.session_context_failure.message = "memory is down"
    began = event(submitted=submitted)
    assert run_event_text(view_of(began), began) == "submitted without session context: memory is down"
    dispatch = dispatched("designer")
    dispatch.dispatched.given.add(scope="s", role="requirements", version=2)
    dispatch.dispatched.given.add(run_id="r", role="critic", seq=4)
    view = view_of(dispatch, result("designer"))
    assert task_text(view, view.tasks["designer"]).endswith("  context: requirements (session), critic")


def test_tool_calls_and_their_results_are_shown() -> None:
    called = run_pb2.ToolActivity(role="designer", call_id="c1", tool_name="look_up", arguments_json='{"q": "x"}')
    answered = run_pb2.ToolActivity(
        role="designer", call_id="c1", tool_name="look_up", result_json="found", failed=True
    )
    began, ended = event("designer", tool_event=called), event("designer", tool_event=answered)
    view = view_of(dispatched("designer"), began)
    assert "calling look_up" in task_text(view, view.tasks["designer"])
    assert task_event_text(view, began) == 'calls look_up {"q": "x"}'
    view.apply(*map(RunEvent, numbered(ended)))
    assert "calling" not in task_text(view, view.tasks["designer"])
    assert task_event_text(view, ended) == "look_up failed: found"


def test_a_reused_task_is_shown_as_reused() -> None:
    reused = event("requirements", 0, result=run_pb2.ResultReceived(role="requirements", state=COMPLETED))
    view = view_of(reused)
    assert task_text(view, view.tasks["requirements"]) == "reused"
    assert task_event_text(view, reused) == "reused"
    assert waiting_text(view, view.tasks["designer"]) == "waiting for an instance of designer"


def test_an_attempt_that_was_given_back_is_not_shown_as_rejected() -> None:
    payload = run_pb2.RejectedByInstance(instance_id="requirements-1")
    payload.failure.message, payload.failure.metadata["given_back"] = "instance i was stopped on purpose", "true"
    view = view_of(dispatched("requirements"), event("requirements", rejected=payload))
    assert [*task_notes(view.tasks["requirements"])] == ["given back: instance i was stopped on purpose"]


def test_answers_and_time_outs_are_notes_in_their_order() -> None:
    asked = run_pb2.InputRequested(input_id="q", role="designer", prompt=[common_pb2.Part(text="Which?")])
    late = run_pb2.QuestionTimedOut(input_id="q", rule="r1", policy=question_pb2.TIMEOUT_POLICY_ESCALATE)
    answer = [common_pb2.Part(text="sealed:abc")]
    given = run_pb2.InputGiven(input_id="q", parts=answer, decision=question_pb2.DECISION_APPROVE)
    events = [event("designer", input_requested=asked), event("designer", 0, question_timed_out=late)]
    view = view_of(dispatched("designer"), *events, event("designer", 0, input_given=given))
    assert [*task_notes(view.tasks["designer"])] == [
        "no answer in time (rule r1): the next approver is asked",
        "question: Which?  answer: approved: (secret)",
    ]


def created(task: str, role: str, step: str, *predecessors: str) -> run_pb2.RunEvent:
    state = run_pb2.TaskStateChanged(
        role=role, state=common_pb2.TASK_STATE_SUBMITTED, step_id=step, predecessors=predecessors
    )
    return event(task, 0, task_state=state)


def test_steps_of_one_role_are_told_apart() -> None:
    view = RunView()
    for each in (
        created("t1", "writer", "draft"),
        created("t2", "writer", "title"),
        created("t3", "writer", "all", "t1"),
    ):
        view.apply(RunEvent(each))
    assert [task.label for task in view.tasks.values()] == ["writer (draft)", "writer (title)", "writer (all)"]
    assert waiting_text(view, view.tasks["t3"]) == "waiting for writer (draft)"
    view.apply(RunEvent(event("t2", 1, result=run_pb2.ResultReceived(role="writer", state=COMPLETED))))
    assert waiting_text(view, view.tasks["t3"]) == "waiting for writer (draft)", (
        "another step of the role has completed"
    )
    view.apply(RunEvent(event("t1", 1, result=run_pb2.ResultReceived(role="writer", state=COMPLETED))))
    assert waiting_text(view, view.tasks["t3"]) == "waiting for an instance of writer"


def test_a_plan_is_one_line() -> None:
    planned = run_pb2.Planned()
    planned.plan.revision = 2
    planned.plan.changes.append("a cycle is broken")
    for name in ("a", "b"):
        planned.plan.steps.add(step_id=name)
    made = event("r.1", 1, planned=planned)
    assert run_event_text(RunView(), made) == "plan 2 made, replaces plan 1: 2 steps, repaired: a cycle is broken"
    planned.identity = "ann"
    assert run_event_text(RunView(), event("", 0, planned=planned)).startswith("plan 2 edited by ann: 2 steps")
