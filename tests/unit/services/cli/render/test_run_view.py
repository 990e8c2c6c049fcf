"""The state of a run, folded from its events."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.run_text import run_event_text, task_event_text, task_text
from archon_services.cli.render.run_view import RunView, state_name

COMPLETED = common_pb2.TASK_STATE_COMPLETED
ROLES = ("requirements", "designer")


def event(task: str = "", attempt: int = 1, at: int = 0, **payload: object) -> run_pb2.RunEvent:
    event = run_pb2.RunEvent(run_id="r", seq=1, **payload)  # type: ignore[arg-type]
    event.time.seconds = at
    if task:
        event.task.task_id, event.task.attempt = task, attempt
    return event


def view_of(*events: run_pb2.RunEvent) -> RunView:
    """A run of two roles, the second of which depends on the first."""
    view = RunView()
    edges = [common_pb2.Edge(upstream="requirements", downstream="designer")]
    view.apply(event(submitted=run_pb2.Submitted(edges=edges), at=100))
    for role in ROLES:
        state = run_pb2.TaskStateChanged(role=role, state=common_pb2.TASK_STATE_SUBMITTED)
        view.apply(event(role, 0, task_state=state))
    for applied in events:
        view.apply(applied)
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
    assert view.waiting_for(view.tasks["designer"]) == "waiting for requirements"
    assert view.waiting_for(view.tasks["requirements"]) == "waiting for an instance of requirements"
    view.apply(dispatched("requirements"))
    assert view.waiting_for(view.tasks["requirements"]) == ""
    view.apply(result("requirements"))
    assert view.waiting_for(view.tasks["designer"]) == "waiting for an instance of designer"


def test_run_is_working_once_a_task_is_dispatched() -> None:
    view = view_of()
    assert view.display_state == "submitted"
    view.apply(dispatched("requirements"))
    assert view.display_state == "working"


def test_text_of_an_earlier_attempt_is_dropped() -> None:
    lost = run_pb2.Lost(instance_id="requirements-1")
    lost.failure.message = "it was silent"
    view = view_of(dispatched("requirements"), delta("requirements", 1, 0, "one "), event("requirements", lost=lost))
    task = view.tasks["requirements"]
    assert "requirements-1 lost: it was silent" in task.last_failure
    assert view.waiting_for(task) == "waiting for an instance of requirements"
    for later in (
        dispatched("requirements", 2),
        delta("requirements", 2, 0, "two"),
        delta("requirements", 1, 4, "late"),
    ):
        view.apply(later)
    assert (task.attempt, task.text, task.instance) == (2, "two", "requirements-2")


def test_tokens_are_estimated_from_bytes_until_the_result() -> None:
    view = view_of(dispatched("requirements"), delta("requirements", 1, 0, "äöü" * 10))
    assert view.tasks["requirements"].tokens == "~15"
    view.apply(result("requirements"))
    assert view.tasks["requirements"].tokens == "~1,200"


def test_tasks_of_a_cancelled_run_are_cancelled() -> None:
    view = view_of(dispatched("requirements"))
    view.apply(event(cancel_requested=run_pb2.CancelRequested(reason="enough")))
    assert view.cancel_reason == "enough"
    view.apply(event(run_state=run_pb2.RunStateChanged(state=common_pb2.TASK_STATE_CANCELED), at=110))
    assert view.state == view.tasks["requirements"].state == "canceled"
    assert (view.began, view.ended) == (100, 110)


def test_unknown_state_is_no_error() -> None:
    assert state_name(77) == "unknown"  # type: ignore[arg-type]


def test_retry_has_its_delay_and_the_failure() -> None:
    retry = run_pb2.RetryScheduled(role="requirements")
    retry.failure.message, retry.not_before.seconds = "too many requests", 107
    view = view_of(dispatched("requirements"), event("requirements", at=105, retry=retry))
    task = view.tasks["requirements"]
    assert (task.state, task.last_failure) == ("submitted", "failed, retry in 2.00 s: too many requests")


def test_missing_session_context_and_given_context_are_shown() -> None:
    submitted = run_pb2.Submitted()
    submitted.session_context_failure.message = "memory is down"
    began = event(submitted=submitted)
    assert run_event_text(view_of(began), began) == "submitted without session context: memory is down"
    dispatch = dispatched("designer")
    dispatch.dispatched.given.add(scope="s", role="requirements", version=2)
    dispatch.dispatched.given.add(run_id="r", role="critic", seq=4)
    assert view_of(dispatch).tasks["designer"].context == ("requirements (session)", "critic")


def test_tool_calls_and_their_results_are_shown() -> None:
    called = run_pb2.ToolActivity(role="designer", call_id="c1", tool_name="look_up", arguments_json='{"q": "x"}')
    answered = run_pb2.ToolActivity(
        role="designer", call_id="c1", tool_name="look_up", result_json="found", failed=True
    )
    began, ended = event("designer", tool_event=called), event("designer", tool_event=answered)
    view = view_of(dispatched("designer"), began)
    assert "calling look_up" in task_text(view, view.tasks["designer"])
    assert task_event_text(view, began, repeated=False) == 'calls look_up {"q": "x"}'
    view.apply(ended)
    assert "calling" not in task_text(view, view.tasks["designer"])
    assert task_event_text(view, ended, repeated=False) == "look_up failed: found"


def test_a_reused_task_is_shown_as_reused() -> None:
    reused = event("requirements", 0, result=run_pb2.ResultReceived(role="requirements", state=COMPLETED))
    view = view_of(reused)
    assert task_text(view, view.tasks["requirements"]) == "reused"
    assert task_event_text(view, reused, repeated=False) == "reused"
    assert view.waiting_for(view.tasks["designer"]) == "waiting for an instance of designer"


def test_an_attempt_that_was_given_back_is_not_shown_as_rejected() -> None:
    payload = run_pb2.RejectedByInstance(instance_id="requirements-1")
    payload.failure.message, payload.failure.metadata["given_back"] = "instance i was stopped on purpose", "true"
    view = view_of(dispatched("requirements"), event("requirements", rejected=payload))
    assert view.tasks["requirements"].last_failure == "given back: instance i was stopped on purpose"


def test_thinking_is_shown_until_text_or_a_tool_call_follows() -> None:
    def thinking(text: str, attempt: int = 1) -> run_pb2.RunEvent:
        return event("requirements", attempt, thinking_delta=run_pb2.ThinkingDelta(role="requirements", text=text))

    view = view_of(dispatched("requirements"), thinking("let "), thinking("me see"), thinking("old", attempt=7))
    task = view.tasks["requirements"]
    assert task.thinking == "let me see"
    view.apply(delta("requirements", 1, 0, "so"))
    assert (task.thinking, task.text) == ("", "so")
    view.apply(thinking("x" * 100_000))
    assert 0 < len(task.thinking) < 10_000
    view.apply(event("requirements", 1, tool_event=run_pb2.ToolActivity(call_id="1", tool_name="look")))
    assert (task.thinking, task.tool_calls) == ("", {"1": "look"})


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
        view.apply(each)
    assert [task.label for task in view.tasks.values()] == ["writer (draft)", "writer (title)", "writer (all)"]
    assert view.waiting_for(view.tasks["t3"]) == "waiting for writer (draft)"
    view.apply(event("t2", 1, result=run_pb2.ResultReceived(role="writer", state=COMPLETED)))
    assert view.waiting_for(view.tasks["t3"]) == "waiting for writer (draft)", "another step of the role has completed"
    view.apply(event("t1", 1, result=run_pb2.ResultReceived(role="writer", state=COMPLETED)))
    assert view.waiting_for(view.tasks["t3"]) == "waiting for an instance of writer"


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
