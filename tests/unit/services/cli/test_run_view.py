"""A run's events, folded into what a person sees."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.run_view import RunView, state_name
from archon_services.cli.render.run_words import news, run_news, task_words

COMPLETED = common_pb2.TASK_STATE_COMPLETED
ROLES = ("requirements", "designer")


def event(task: str = "", attempt: int = 1, at: int = 0, **what: object) -> run_pb2.RunEvent:
    made = run_pb2.RunEvent(run_id="r", seq=1, **what)  # type: ignore[arg-type]
    made.time.seconds = at
    if task:
        made.task.task_id, made.task.attempt = task, attempt
    return made


def view_of(*events: run_pb2.RunEvent) -> RunView:
    """A run of two roles, the second of which waits for the first."""
    view = RunView()
    edges = [common_pb2.Edge(upstream="requirements", downstream="designer")]
    view.apply(event(submitted=run_pb2.Submitted(edges=edges), at=100))
    for role in ROLES:
        state = run_pb2.TaskStateChanged(role=role, state=common_pb2.TASK_STATE_SUBMITTED)
        view.apply(event(role, 0, task_state=state))
    for one in events:
        view.apply(one)
    return view


def dispatched(task: str, attempt: int = 1, at: int = 101) -> run_pb2.RunEvent:
    return event(task, attempt, at, dispatched=run_pb2.Dispatched(role=task, instance_id=f"{task}-{attempt}"))


def delta(task: str, attempt: int, offset: int, text: str) -> run_pb2.RunEvent:
    return event(task, attempt, text_delta=run_pb2.TextDelta(role=task, offset=offset, text=text))


def result(task: str, at: int = 103) -> run_pb2.RunEvent:
    usage = common_pb2.Usage(output_tokens=1200, estimated=True)
    return event(task, 1, at, result=run_pb2.ResultReceived(role=task, state=COMPLETED, usage=usage))


def test_a_task_waits_for_its_upstream_then_for_an_instance() -> None:
    view = view_of()
    assert view.waits_for(view.tasks["designer"]) == "waits for requirements"
    assert view.waits_for(view.tasks["requirements"]) == "waits for an instance of requirements"
    view.apply(dispatched("requirements"))
    assert view.waits_for(view.tasks["requirements"]) == ""
    view.apply(result("requirements"))
    assert view.waits_for(view.tasks["designer"]) == "waits for an instance of designer"


def test_a_run_is_working_once_a_task_is_under_way() -> None:
    view = view_of()
    assert view.shown_state == "submitted"
    view.apply(dispatched("requirements"))
    assert view.shown_state == "working"


def test_text_grows_and_that_of_an_earlier_attempt_is_dropped() -> None:
    lost = run_pb2.Lost(instance_id="requirements-1")
    lost.failure.message = "it was silent"
    view = view_of(dispatched("requirements"), delta("requirements", 1, 0, "one "), event("requirements", lost=lost))
    task = view.tasks["requirements"]
    assert "requirements-1 was lost: it was silent" in task.remark
    assert view.waits_for(task) == "waits for an instance of requirements"
    for one in (dispatched("requirements", 2), delta("requirements", 2, 0, "two"), delta("requirements", 1, 4, "late")):
        view.apply(one)
    assert (task.attempt, task.text, task.instance) == (2, "two", "requirements-2")


def test_tokens_are_estimated_from_bytes_until_the_result_says_how_many() -> None:
    view = view_of(dispatched("requirements"), delta("requirements", 1, 0, "äöü" * 10))
    assert view.tasks["requirements"].tokens == "~15"
    view.apply(result("requirements"))
    assert view.tasks["requirements"].tokens == "~1,200"


def test_what_a_cancelled_run_cuts_off_is_cancelled() -> None:
    view = view_of(dispatched("requirements"))
    view.apply(event(cancel_requested=run_pb2.CancelRequested(reason="enough")))
    assert view.cancelling == "enough"
    view.apply(event(run_state=run_pb2.RunStateChanged(state=common_pb2.TASK_STATE_CANCELED), at=110))
    assert view.state == view.tasks["requirements"].state == "canceled"
    assert (view.began, view.ended) == (100, 110)


def test_a_state_that_this_version_does_not_know_is_no_error() -> None:
    assert state_name(77) == "unknown"  # type: ignore[arg-type]


def test_a_failure_that_is_tried_again_says_so_and_when() -> None:
    retry = run_pb2.RetryScheduled(role="requirements")
    retry.failure.message, retry.not_before.seconds = "too many requests", 107
    view = view_of(dispatched("requirements"), event("requirements", at=105, retry=retry))
    task = view.tasks["requirements"]
    assert (task.state, task.remark) == ("submitted", "failed, is tried again in 2.00 s: too many requests")


def test_a_run_that_goes_on_without_what_its_session_remembers_says_why_and_whose_answers_were_known() -> None:
    lacks = run_pb2.Submitted()
    lacks.session_context_failure.message = "memory is down"
    began = event(submitted=lacks)
    assert run_news(view_of(began), began) == "submitted, without what its session remembers: memory is down"
    known = dispatched("designer")
    known.dispatched.given.add(scope="s", role="requirements", version=2)
    known.dispatched.given.add(run_id="r", role="critic", seq=4)
    assert view_of(known).tasks["designer"].given == ("requirements (session)", "critic")


def test_tools_are_shown_while_they_are_called_and_what_they_answered() -> None:
    called = run_pb2.ToolActivity(role="designer", call_id="c1", tool_name="look_up", arguments_json='{"q": "x"}')
    answered = run_pb2.ToolActivity(
        role="designer", call_id="c1", tool_name="look_up", result_json="found", failed=True
    )
    began, ended = event("designer", tool_event=called), event("designer", tool_event=answered)
    view = view_of(dispatched("designer"), began)
    assert "calls look_up" in task_words(view, view.tasks["designer"])
    assert news(view, began, asked_before=False) == 'calls look_up {"q": "x"}'
    view.apply(ended)
    assert "calls" not in task_words(view, view.tasks["designer"])
    assert news(view, ended, asked_before=False) == "look_up failed: found"
