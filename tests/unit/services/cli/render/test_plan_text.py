"""A plan as lines and as JSON: steps, flow, estimates beside what happened, repairs."""

from __future__ import annotations

import json
from typing import Any

from archon.api.common.v1 import common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.planning import parse_plan
from archon_services.cli.render.plan_document import Estimate, estimate_of, in_order, plan_document
from archon_services.cli.render.plan_text import about, plan_lines

COMPLETED, FAILED, WORKING = (
    common_pb2.TASK_STATE_COMPLETED,
    common_pb2.TASK_STATE_FAILED,
    common_pb2.TASK_STATE_WORKING,
)


def plan_of(*steps: dict[str, Any], **fields: Any) -> plan_pb2.Plan:
    made = plan_pb2.Plan(goal="a trip", revision=1, **fields)
    for step in steps:
        made.steps.add(**{"confidence": 1.0, "role": "clerk", **step})
    return made


TRIP = plan_of(
    {"step_id": "trip", "description": "Write it down", "dependencies": ["hotel", "flight"], "role": "writer"},
    {
        "step_id": "flight",
        "description": "Book a flight",
        "tool_name": "book",
        "estimated_seconds": 5,
        "estimated_cost_micro_usd": 20_000,
        "critical": True,
    },
    {"step_id": "hotel", "description": "Book a hotel " * 20, "estimated_seconds": 8.26, "confidence": 0.4},
    changes=["a cycle is broken"],
)


def test_a_plan_that_was_not_executed_has_estimates() -> None:
    lines = [text for text, _ in plan_lines(TRIP)]
    assert lines == [
        "plan 1: a trip",
        "  flight  clerk [book]  ~5 s  ~$0.02  critical",
        "          Book a flight",
        "          used by trip",
        "  hotel   clerk  ~8.3 s  confidence 40%",
        lines[5],
        "          used by trip",
        "  trip    writer",
        "          Write it down",
        "          needs hotel, flight",
        "3 steps, ~8.3 s from start to end, ~13.3 s of work, ~$0.02, 1 without an estimate of time",
        "repaired: a cycle is broken",
    ]
    assert lines[5].startswith("          Book a hotel Book") and lines[5].endswith("…")
    assert max(map(len, lines[:10])) <= 80


def test_the_plan_of_a_run_has_what_happened_beside_it() -> None:
    plan = plan_of(
        {"step_id": "a", "task_id": "r.2", "state": COMPLETED, "estimated_seconds": 5, "estimated_cost_micro_usd": 10},
        {"step_id": "b", "task_id": "r.3", "state": FAILED},
        {"step_id": "c", "task_id": "r.4", "state": WORKING, "estimated_seconds": 9},
    )
    plan.steps[1].failure.message = "booked out"
    run = run_pb2.Run(plan=plan)
    for task_id, attempt in (("r.2", 1), ("r.3", 2), ("r.4", 1)):
        task = run.tasks.add(task_id=task_id, attempt=attempt)
        task.start_time.seconds = 100
        if task_id != "r.4":
            task.end_time.seconds = 102
    run.tasks[0].usage.cost_micro_usd = 30
    lines = list(plan_lines(plan, run, now=103.5))
    assert ("  a  clerk  completed  2.00 s of ~5 s  $0.00003 of ~$0.00001", "completed") in lines
    assert ("  b  clerk  failed  2.00 s  attempt 2", "failed") in lines
    assert ("     booked out", "failed") in lines
    assert ("  c  clerk  working  3.50 s of ~9 s", "working") in lines


def test_steps_that_do_not_depend_on_each_other_run_at_once() -> None:
    steps = [{"step_id": id_, "estimated_seconds": 2.0} for id_ in "abc"]
    assert estimate_of(plan_of(*steps)) == Estimate(6.0, 2.0, 0, 0)
    chain = [{**step, "dependencies": [chr(ord(str(step["step_id"])) - 1)]} for step in steps]
    assert estimate_of(plan_of(*chain)) == Estimate(6.0, 6.0, 0, 0), "a dependency on no step takes no time"
    assert estimate_of(plan_of()) == Estimate(0, 0, 0, 0)


def test_steps_stand_behind_what_they_need_even_in_a_circle() -> None:
    assert [step.step_id for step in in_order(TRIP.steps)] == ["flight", "hotel", "trip"]
    circle = plan_of({"step_id": "a", "dependencies": ["b"]}, {"step_id": "b", "dependencies": ["a"]})
    assert [step.step_id for step in in_order(circle.steps)] == ["a", "b"]


def test_a_plan_without_estimates_says_so() -> None:
    assert [text for text, _ in plan_lines(plan_of({"step_id": "a"}))][-1] == "1 step, without estimates"


def test_the_document_is_what_planners_reply() -> None:
    plan = plan_of(
        {
            "step_id": "a",
            "description": "do a",
            "tool_name": "book",
            "tool_args_json": '{"to":"{b}"}',
            "state": WORKING,
        },
        {
            "step_id": "b",
            "description": "do b",
            "partial_input": True,
            "confidence": 0.5,
            "output_schema_json": '{"type":"array"}',
        },
        change_seq=7,
    )
    plan.steps[0].dependencies.append("b")
    document = plan_document(plan)
    assert document["change_seq"] == 7
    assert [step.get("state") for step in document["subtasks"]] == ["working", None]
    task = parse_plan(json.dumps(document), "query", "t")
    assert (task.goal, [each.id for each in task.subtasks]) == ("a trip", ["a", "b"])
    first, second = task.subtasks
    assert (first.tool_name, first.tool_args, first.dependencies) == ("book", {"to": "{b}"}, ("b",))
    assert (second.partial_input, second.confidence, second.role) == (True, 0.5, "clerk")
    assert (first.output_schema, second.output_schema) == ({}, {"type": "array"})


def test_estimated_times_are_rounded() -> None:
    assert [about(seconds) for seconds in (0.04, 15.0, 8.26, 125.0)] == ["~0 s", "~15 s", "~8.3 s", "~2 m 05 s"]
