"""The spans of a run, derived from its events."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.trace import SpanKind

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.telemetry import names
from archon.telemetry.span_data import SpanData
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import UNDECIDED, Failure, Submission, TaskState
from archon_services.orchestrator.observability.run_log import RunLog
from archon_services.orchestrator.observability.run_spans import spans_of
from archon_services.orchestrator.observability.span_ids import attempt_span_id, run_span_id, trace_id

RUN = "01a208bc08da000058b11b0020934124"
CALLER_TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LOST = Failure("UNAVAILABLE", "INSTANCE_LOST", "the instance is gone")


def submitted(traceparent: str = "", *, traced: bool = True) -> ev.Submitted:
    goal = run_pb2.Submitted(traced=traced)
    goal.trace.traceparent = traceparent or f"00-{trace_id(RUN)}-{run_span_id(RUN)}-01"
    goal.trace.tracestate = "vendor=1"
    submission = Submission(
        run_id=RUN,
        tenant="default",
        request_id="",
        session_id="s",
        strategy="pipeline",
        roles=("a",),
        edges=(),
        timeout=60.0,
        goal=goal,
    )
    return ev.Submitted(submission, "o-1", 1)


def dispatched(task: str = "t", attempt: int = 1, role: str = "a") -> ev.Dispatched:
    return ev.Dispatched(task, attempt, 1, role, f"{role}-1", ())


def completed(task: str = "t", attempt: int = 1, role: str = "a") -> ev.ResultReceived:
    usage = common_pb2.Usage(input_tokens=10, output_tokens=5, cost_micro_usd=2_500_000, model_calls=1)
    return ev.ResultReceived(task, attempt, role, TaskState.COMPLETED, agent_pb2.TaskResult(usage=usage))


def ended(state: TaskState = TaskState.COMPLETED, failure: Failure | None = None) -> ev.RunEnded:
    return ev.RunEnded(state, failure, ())


def log_of(events: Sequence[ev.Event]) -> RunLog:
    """The log of events, one second apart."""
    log = RunLog()
    for time, event in enumerate(events, 1):
        log.add(event, float(time))
    return log


def spans(*events: ev.Event) -> list[SpanData]:
    return list(spans_of(log_of(events)))


def test_a_run_is_a_workflow_with_a_client_span_per_attempt() -> None:
    attempt, run = spans(submitted(), ev.TaskCreated("t", "a"), dispatched(), completed(), ended())
    assert (run.name, run.kind, run.parent_id, run.remote_parent) == (
        "invoke_workflow pipeline",
        SpanKind.INTERNAL,
        "",
        False,
    )
    assert (run.start, run.end, run.trace_id) == (1 * 10**9, 5 * 10**9, trace_id(RUN))
    assert (attempt.name, attempt.kind, attempt.parent_id) == ("invoke_agent a", SpanKind.CLIENT, run.span_id)
    assert (attempt.start, attempt.end) == (3 * 10**9, 4 * 10**9)
    assert (attempt.span_id, attempt.tracestate) == (attempt_span_id(RUN, "t", 1), "vendor=1")
    assert attempt.attributes[names.TASK_STATE] == "completed" and attempt.error is None
    assert (run.attributes[names.INPUT_TOKENS], run.attributes[names.COST]) == (10, 2.5)
    assert run.attributes[names.CONVERSATION_ID] == "s"


def test_a_run_continues_the_trace_of_its_caller() -> None:
    *_, run = spans(submitted(f"00-{CALLER_TRACE}-{CALLER}-01"), ended())
    assert (run.trace_id, run.parent_id, run.remote_parent) == (CALLER_TRACE, CALLER, True)


def test_an_attempt_after_another_links_to_it() -> None:
    first, second, run = spans(
        submitted(), dispatched(), ev.Lost("t", 1, "a-1", LOST), dispatched(attempt=2), completed(attempt=2), ended()
    )
    assert (first.error, first.attributes[names.ERROR_TYPE]) == ("the instance is gone", "INSTANCE_LOST")
    assert first.attributes[names.TASK_STATE] == "lost" and second.attributes[names.TASK_STATE] == "completed"
    (link,) = second.links
    assert (f"{link.context.span_id:016x}", dict(link.attributes or {})) == (first.span_id, {names.LINK: "lost"})
    assert first.parent_id == second.parent_id == run.span_id


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (ev.Retried("t", 1, "a", LOST, 0.0), "retried"),
        (ev.Rejected("t", 1, "a-1", LOST, 0.0), "rejected"),
        (ev.TaskEnded("t", "a", 1, TaskState.CANCELED, None), "canceled"),
        (ev.InputRequested("t", 1, "a", "q", None), "input_required"),
        (ev.Discarded("t", 1, "ABORTED"), "discarded"),
    ],
)
def test_every_end_of_an_attempt_ends_its_span(event: ev.Event, state: str) -> None:
    attempt, *_ = spans(submitted(), dispatched(), event, ended())
    assert (attempt.attributes[names.TASK_STATE], attempt.end) == (state, 3 * 10**9)


def test_a_question_that_an_attempt_outlives_is_no_end() -> None:
    attempt, run = spans(
        submitted(), dispatched(), ev.InputRequested("t", 1, "a", "q", None, sequence=4), completed(), ended()
    )
    assert attempt.attributes[names.TASK_STATE] == "completed"
    assert [event.name for event in run.events] == [names.INPUT_REQUESTED]


def test_an_attempt_that_runs_at_the_end_is_stopped() -> None:
    attempt, run = spans(submitted(), dispatched(), ended(TaskState.FAILED, LOST))
    assert (attempt.attributes[names.TASK_STATE], attempt.end) == ("stopped", run.end)
    assert (run.error, run.attributes[names.ERROR_TYPE]) == ("the instance is gone", "INSTANCE_LOST")


def delegated(traceparent: str) -> ev.Delegated:
    payload = run_pb2.Delegated()
    payload.trace.traceparent = traceparent
    return ev.Delegated("t", 1, "d", "child", "b", "memo", 1, payload=payload)


SENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("traceparent", "parent"),
    [
        (f"00-{trace_id(RUN)}-{SENT}-01", SENT),
        (f"00-{trace_id(RUN)}-{SENT}-00", attempt_span_id(RUN, "t", 1)),
        (f"00-{CALLER_TRACE}-{SENT}-01", attempt_span_id(RUN, "t", 1)),
        ("", attempt_span_id(RUN, "t", 1)),
    ],
    ids=["its span", "not recorded", "another trace", "no trace"],
)
def test_a_delegated_task_is_below_who_delegated_it(traceparent: str, parent: str) -> None:
    found = spans(
        submitted(),
        dispatched(),
        ev.TaskCreated("child", "b", "t"),
        delegated(traceparent),
        dispatched("child", role="b"),
        completed("child", role="b"),
        completed(),
        ended(),
    )
    assert {span.name: span.parent_id for span in found}["invoke_agent b"] == parent


def test_a_takeover_is_an_event_and_names_the_new_owner() -> None:
    *attempts, run = spans(
        submitted(), dispatched(), ev.Claimed("o-2", 2), completed(), dispatched("u"), completed("u"), ended()
    )
    assert [attempt.attributes[names.OWNER] for attempt in attempts] == ["o-1", "o-2"]
    assert [(event.name, dict(event.attributes or {})) for event in run.events] == [
        (names.TAKEN_OVER, {names.OWNER: "o-2"})
    ]


def test_the_same_events_make_the_same_spans() -> None:
    events = (submitted(), dispatched(), completed(), ended())
    assert spans(*events) == spans(*events)


def test_a_run_that_is_not_sampled_is_not_traced() -> None:
    assert not log_of([submitted(traced=False)]).traced
    assert log_of([submitted()]).traced


COMMITTEE = (
    *(SubTask(id_, "Suggest a name.", role=f"role-{id_}") for id_ in ("a", "b", "c")),
    SubTask("pick", "Pick one.", dependencies=("a", "b", "c"), decision="vote"),
)


def planned(*steps: SubTask) -> ev.Planned:
    return ev.Planned("plan", 1, Plan("plan", "do it", "do it", subtasks=steps))


def member_events(*, deciding: str = "") -> list[ev.Event]:
    """A run whose three members have answered, two by their result, one cancelled; `t-pick` decides next."""
    members: list[ev.Event] = [dispatched(f"t-{id_}", role=f"role-{id_}") for id_ in ("a", "b", "c")]
    created: list[ev.Event] = [ev.TaskCreated(f"t-{id_}", f"role-{id_}", step_id=id_) for id_ in ("a", "b", "c")]
    choice = ev.TaskCreated("t-pick", deciding, predecessors=("t-a", "t-b", "t-c"), step_id="pick")
    ends: list[ev.Event] = [
        completed("t-a", role="role-a"),
        ev.TaskEnded("t-c", "role-c", 1, TaskState.CANCELED, None),
        completed("t-b", role="role-b"),
    ]
    return [submitted(), planned(*COMMITTEE), *created, choice, *members, *ends]


def resolved(winner: str = "", reason: str = "2 of 3 say the same") -> agent_pb2.TaskResult:
    result = agent_pb2.TaskResult()
    result.resolution.rule, result.resolution.winner_step_id = "vote", winner
    result.resolution.reason, result.resolution.conflict = reason, "c says something else"
    return result


def links_of(span: SpanData) -> dict[str, dict[str, object]]:
    return {f"{link.context.span_id:016x}": dict(link.attributes or {}) for link in span.links}


def test_a_decision_by_rule_is_a_span_with_links_to_its_choices() -> None:
    decided = ev.ResultReceived("t-pick", 0, "", TaskState.COMPLETED, resolved("a"), winner="a")
    *members, decision, run = spans(*member_events(), decided, ended())
    assert [(span.parent_id, span.attributes[names.STEP_ID]) for span in members] == [
        (run.span_id, "a"),
        (run.span_id, "b"),
        (run.span_id, "c"),
    ], "members are siblings below the run"
    assert (decision.name, decision.parent_id, decision.kind) == ("decide vote", run.span_id, SpanKind.INTERNAL)
    assert (decision.start, decision.end) == (members[1].end, members[1].end + 10**9), "from the last result on"
    assert links_of(decision) == {
        members[0].span_id: {names.LINK: "completed", names.DECISION_CHOSEN: True},
        members[1].span_id: {names.LINK: "completed"},
        members[2].span_id: {names.LINK: "canceled"},
    }
    about = {name: value for name, value in decision.attributes.items() if name.startswith("archon.decision")}
    assert about == {
        names.DECISION_RULE: "vote",
        names.DECISION_WINNER: "a",
        names.DECISION_REASON: "2 of 3 say the same",
        names.DECISION_CONFLICT: "c says something else",
    }
    assert decision.error is None


def test_a_decision_left_to_a_role_has_the_rule_and_an_attempt() -> None:
    undecided = Failure("FAILED_PRECONDITION", UNDECIDED, "undecided: a tie")
    left = ev.Retried("t-pick", 0, "judge", undecided, 0.0, payload=resolved(reason="a tie"))
    events = [*member_events(deciding="judge"), left, dispatched("t-pick", role="judge"), completed("t-pick"), ended()]
    *members, attempt, decision, _ = spans(*events)
    assert names.DECISION_WINNER not in decision.attributes
    assert (decision.attributes[names.DECISION_REASON], decision.error) == ("a tie", None)
    assert attempt.name == "invoke_agent judge"
    assert set(links_of(attempt)) == set(links_of(decision)) == {span.span_id for span in members}


def test_a_decision_that_fails_has_the_reason() -> None:
    undecided = Failure("FAILED_PRECONDITION", UNDECIDED, "undecided: a tie")
    failed = ev.TaskEnded("t-pick", "", 0, TaskState.FAILED, undecided)
    *_, decision, _ = spans(*member_events(), failed, ended(TaskState.FAILED, undecided))
    assert (decision.error, decision.attributes[names.ERROR_TYPE]) == ("undecided: a tie", UNDECIDED)
    assert decision.attributes[names.DECISION_RULE] == "vote"


def test_a_plan_without_decisions_keeps_nothing_of_them() -> None:
    events: list[ev.Event] = [
        submitted(),
        planned(SubTask("a", "x", role="a")),
        ev.TaskCreated("t", "a", step_id="a"),
        dispatched(),
    ]
    log = log_of([*events, completed(), ended()])
    assert log.decisions is None
    attempt, _ = spans_of(log)
    assert names.STEP_ID not in attempt.attributes
