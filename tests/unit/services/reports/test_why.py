"""The explanations of `archon why`, from the events of a run."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.reports.why import WIDTH, DispatchReport, why_document, why_lines
from tests.unit.services.cli.render.run_events import event


def created(task: str, role: str, step: str = "") -> run_pb2.RunEvent:
    made = event(task, 0)
    made.task_state.role, made.task_state.step_id = role, step
    made.task_state.state = common_pb2.TASK_STATE_SUBMITTED
    return made


def dispatched(task: str, instance: str, reason: str = "", compared: int = 0, attempt: int = 1) -> run_pb2.RunEvent:
    made = event(task, attempt)
    made.dispatched.role, made.dispatched.instance_id = "cook", instance
    if reason:
        made.dispatched.placement.reason, made.dispatched.placement.compared = reason, compared
    return made


def candidate(of: run_pb2.RunEvent, instance: str, load: float, factor: float, **metrics: Any) -> None:
    added = of.dispatched.placement.candidates.add(instance_id=instance, load=load, factor=factor)
    if metrics:
        added.metrics.CopyFrom(run_pb2.InstanceMetrics(**metrics))


def text_of(*events: run_pb2.RunEvent, step: str = "") -> str:
    report = DispatchReport()
    for each in events:
        report.apply(each)
    lines = [line for task in report.tasks(step) for line in why_lines(task)]
    assert all(len(line) <= WIDTH for line in lines)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("reason", "compared", "expected"),
    [
        ("", 0, "on cook-1: no other instance with a free slot could take it"),
        ("least_loaded", 3, "on cook-1: the least loaded of 3 instances with a free slot"),
        ("preferred", 1, "on cook-1: the decision that assigns the step chose it"),
        ("of a later version", 2, "on cook-1: of a later version, of 2 instances"),
    ],
)
def test_each_reason_is_a_clause(reason: str, compared: int, expected: str) -> None:
    assert text_of(created("t", "cook"), dispatched("t", "cook-1", reason, compared)).splitlines() == [
        "cook  working",
        f"  attempt 1  {expected}",
    ]


def test_a_choice_by_record_lists_the_instances_that_were_compared() -> None:
    made = dispatched("t", "cook-2", "record", 4)
    candidate(made, "cook-2", 0.5, 0.59, tasks=40.2, success_rate=1.0, mean_seconds=1.2, mean_cost_micro_usd=1_500)
    candidate(made, "cook-1", 0.0, 2.0, tasks=3.5, success_rate=0.25, mean_seconds=3.0)
    candidate(made, "cook-3", 0.25, 1.0)
    assert text_of(created("t", "cook"), made).splitlines() == [
        "cook  working",
        "  attempt 1  on cook-2: by load and record the best of 4 instances with a free",
        "             slot, and not the least loaded",
        "    instance  load  success    time     cost  tasks  factor",
        "    cook-2    50 %    100 %  1.20 s  $0.0015     40    0.59",
        "    cook-1     0 %     25 %  3.00 s        -    3.5    2.00",
        "    cook-3    25 %        -       -        -      -    1.00",
        "    and 1 more",
    ]


def test_a_further_attempt_says_what_became_of_the_one_before() -> None:
    retry = event("t", 1)
    retry.retry.failure.message, retry.retry.failure.retry = "the oven is cold", failure_pb2.RETRY_ELSEWHERE
    lost = event("t", 2)
    lost.lost.instance_id, lost.lost.failure.message = "cook-2", "the instance is gone"
    text = text_of(
        created("t", "cook", "bake"),
        dispatched("t", "cook-1"),
        retry,
        dispatched("t", "cook-2", "apart", 2, attempt=2),
        lost,
        dispatched("t", "cook-1", "least_loaded", 2, attempt=3),
        step="bake",
    )
    assert "because attempt 1 failed: the oven is cold" in text
    assert "another one was passed over, which has just failed at it" in " ".join(text.split())
    assert "because cook-2 was lost: the instance is gone" in text
    assert text.startswith("cook (bake)  working")


def test_rules_of_the_plan_are_named() -> None:
    planned = event("p")
    steps = planned.planned.plan.steps
    steps.add(step_id="x-1")
    steps.add(step_id="x-2", delay_seconds=2.5)
    steps.add(step_id="x", dependencies=["x-1", "x-2"], quorum=1, decision="first")
    steps.add(step_id="do", assigned_by="award", dependencies=["award"])
    decided = event("d", 0)
    decided.result.state = common_pb2.TASK_STATE_COMPLETED
    decided.result.resolution.rule, decided.result.resolution.reason = "first", "x-2 was first"
    text = text_of(
        planned,
        created("a", "cook", "x-1"),
        created("b", "cook", "x-2"),
        created("d", "", "x"),
        created("e", "cook", "do"),
        dispatched("a", "cook-1"),
        decided,
    )
    assert "  the rule first of x compares it with x-2: other instances if there are any" in text
    assert "  a hedge: it begins after 2.50 s if x-1 has no result by then" in text
    assert "  decided by the rule first: x-2 was first" in text
    assert "  the step award says who executes it" in text


def test_a_hedge_after_a_measured_time_says_so() -> None:
    planned = event("p")
    planned.planned.plan.steps.add(step_id="x-1")
    planned.planned.plan.steps.add(step_id="x-2", delay_seconds=10, delay_quantile=0.95)
    planned.planned.plan.steps.add(step_id="x", dependencies=["x-1", "x-2"], quorum=1)
    first = dispatched("a", "cook-1")
    first.dispatched.expected_seconds = 1.5
    text = text_of(planned, created("a", "cook", "x-1"), created("b", "cook", "x-2"), first, step="x-2")
    assert "a hedge: it begins 1.50 s after the other, the measured time of the role, if" in text
    assert text.endswith("has no result by then")


def test_a_task_is_found_by_step_role_or_id_and_has_a_document() -> None:
    report = DispatchReport()
    for each in (created("t", "cook", "bake"), created("u", "waiter"), dispatched("t", "cook-1", "share", 2)):
        report.apply(each)
    for name in ("bake", "cook", "t"):
        (task,) = report.tasks(name)
        assert task.task_id == "t"
    assert report.tasks("nothing") == [] and report.names() == ["bake", "waiter"]
    assert [task.task_id for task in report.tasks()] == ["t"]
    document = why_document(report.tasks("bake")[0])
    assert document["attempts"][0]["placement"] == {"reason": "share", "compared": 2}
    assert document["attempts"][0]["instance_id"] == "cook-1"
