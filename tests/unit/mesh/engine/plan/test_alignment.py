"""What a model is asked about the alignment of a plan, and how its verdict is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon_mesh.engine.plan import SubTaskStatus, Task
from archon_mesh.engine.plan.alignment import (
    MAX_QUERY_SHOWN,
    MAX_RESULT_SHOWN,
    MAX_RESULTS_SHOWN,
    MAX_STEP_SHOWN,
    MAX_STEPS_SHOWN,
    alignment_messages,
    asks_for_alignment,
    read_misalignment,
)
from archon_mesh.engine.plan.replan import MAX_PROBLEM
from tests.unit.mesh.engine.plan.plans import step, task_of

DONE, FAILED, EXECUTING = SubTaskStatus.COMPLETED, SubTaskStatus.FAILED, SubTaskStatus.EXECUTING


def data_of(task: Task) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(alignment_messages(task)[1].content)
    return data


def test_the_model_sees_query_results_and_what_remains() -> None:
    data = data_of(
        task_of(
            step("1", status=DONE, result={"price": 3}),
            step("2", status=FAILED, result="closed"),
            step("3", status=EXECUTING, tool_name="book", tool_args={"name": "Plaza"}),
            step("4", role="writer"),
        )
    )
    assert {name: [entry["id"] for entry in data[name]] for name in ("results", "remaining")} == {
        "results": ["1", "2"],
        "remaining": ["3", "4"],
    }
    assert [(entry["status"], entry["result"]) for entry in data["results"]] == [
        ("completed", '{"price": 3}'),
        ("failed", "closed"),
    ]
    assert data["remaining"][0]["tool_args"] == '{"name": "Plaza"}'
    assert data["remaining"][1]["role"] == "writer"


def test_what_the_model_sees_is_bounded() -> None:
    long = "x" * 100_000
    done = [step(f"d{n}", status=DONE, result=long, description=long) for n in range(MAX_STEPS_SHOWN + 3)]
    left = [step(f"l{n}", description=long, tool_name="t", tool_args={"a": long}) for n in range(MAX_STEPS_SHOWN + 3)]
    task = Task("t", long, long, (*done, *left))
    data = data_of(task)
    assert (len(data["results"]), len(data["remaining"]), data["remaining_besides"]) == (MAX_STEPS_SHOWN,) * 2 + (3,)
    assert data["results"][-1]["result"].startswith("x" * MAX_RESULT_SHOWN + " ... [")
    assert "result" not in data["results"][0], "the latest results are shown first"
    notes = 100 * (4 * MAX_STEPS_SHOWN)
    assert len(alignment_messages(task)[1].content) < (
        2 * MAX_QUERY_SHOWN + MAX_RESULTS_SHOWN + 3 * MAX_STEPS_SHOWN * MAX_STEP_SHOWN + 3 * notes
    )


def test_the_offline_model_knows_the_prompt() -> None:
    messages = alignment_messages(task_of(step("1")))
    assert asks_for_alignment(messages)
    assert not asks_for_alignment(messages[1:])


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ({"aligned": True}, ""),
        ({"aligned": True, "problem": "none"}, ""),
        ({"aligned": False, "problem": " it books a flight "}, "it books a flight"),
        ({"aligned": False, "reason": "it books a flight"}, "it books a flight"),
        ({"aligned": False}, "it does not lead to what the query asks for"),
        ({"aligned": False, "problem": 7}, "it does not lead to what the query asks for"),
        ({"aligned": "false"}, ""),
        ({"aligned": None}, ""),
        ({}, ""),
        ([False], ""),
        (None, ""),
    ],
)
def test_a_verdict_is_read(reply: Any, problem: str) -> None:
    assert read_misalignment(reply) == problem


def test_a_long_problem_is_cut() -> None:
    problem = read_misalignment({"aligned": False, "problem": "x" * (MAX_PROBLEM + 7)})
    assert problem == "x" * MAX_PROBLEM + " ... [7 characters left out]"
