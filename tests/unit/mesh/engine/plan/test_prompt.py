"""What a planner is asked, and what it reads of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan import FaultKind, SubTaskStatus
from archon_mesh.engine.plan.faults import PlanFault
from archon_mesh.engine.plan.prompt import (
    MAX_FAULTS,
    MAX_SHOWN,
    PlannerInput,
    RoleProfile,
    faults_message,
    planner_messages,
    progress_of,
    read_planner_input,
)
from tests.unit.mesh.engine.plan.plans import step, task_of

PROMPTS = Path(__file__).parent / "prompts"
TOOL = {"name": "search", "description": "Searches.", "parameters": {"type": "object"}}
ALL: dict[str, Any] = {
    "tools": (TOOL,),
    "roles": {"writer": "Writes."},
    "capabilities": ("booking",),
    "context": {"city": "Rome"},
    "profiles": {"writer": {"seconds": 2.0}},
    "templates": ({"name": "trip", "description": "Plans a trip.", "parameters": []},),
}
PROGRESS = [{"id": "1", "description": "Do 1", "status": "failed", "result": "no"}]


def asked(planner_input: PlannerInput, **options: Any) -> tuple[str, dict[str, Any]]:
    """The rules, and the object with the query."""
    system, user = planner_messages(planner_input, **options)
    assert (system.role, user.role) == ("system", "user")
    return system.content, json.loads(user.content)


@pytest.mark.parametrize(
    ("name", "planner_input", "may_ask"),
    [
        ("first", PlannerInput("q"), False),
        ("first_with_all", PlannerInput("q", **ALL), True),
        ("replan", PlannerInput("q", progress=PROGRESS, reason="it failed"), False),
        ("expand", PlannerInput("q", progress=PROGRESS, expand=("1",)), False),
    ],
)
def test_the_rules_read_like_this(name: str, planner_input: PlannerInput, may_ask: bool) -> None:
    rules, _ = asked(planner_input, may_ask=may_ask, max_subtasks=7)
    assert rules == (PROMPTS / f"{name}.txt").read_text().rstrip("\n")


def test_the_planner_gets_only_what_there_is() -> None:
    assert asked(PlannerInput("How é?"))[1] == {"query": "How é?"}
    assert "é" in planner_messages(PlannerInput("é"))[1].content, "text is not escaped"
    assert asked(PlannerInput("q", **ALL))[1] == {
        "query": "q",
        "tools": [TOOL],
        "roles": {"writer": "Writes."},
        "profiles": {"writer": {"seconds": 2.0}},
        "capabilities": ["booking"],
        "templates": [{"name": "trip", "description": "Plans a trip.", "parameters": []}],
        "context": {"city": "Rome"},
    }


def test_a_replan_has_the_progress_and_its_reason() -> None:
    _, data = asked(PlannerInput("q", progress=(), reason="it failed"))
    assert data == {"query": "q", "progress": [], "reason": "it failed"}
    _, data = asked(PlannerInput("q", progress=PROGRESS, split=("1",)))
    assert data == {"query": "q", "progress": PROGRESS, "reason": "", "split": ["1"]}
    _, data = asked(PlannerInput("q", progress=PROGRESS, reason="not told", expand=("1",)))
    assert data == {"query": "q", "progress": PROGRESS, "expand": ["1"]}


def test_a_long_value_of_the_context_is_cut() -> None:
    values = {"fits": "x" * MAX_SHOWN, "long": "x" * (MAX_SHOWN + 1), "number": 1, "list": [1] * MAX_SHOWN}
    _, data = asked(PlannerInput("q", context=values))
    assert (data["context"]["fits"], data["context"]["number"]) == (values["fits"], 1)
    assert data["context"]["long"] == f"{values['fits']} ... [1 characters left out]"
    assert data["context"]["list"].startswith("[1, 1, ")


def test_a_value_that_is_no_json_is_written_as_text() -> None:
    assert asked(PlannerInput("q", context={"where": Path("/x")}))[1]["context"] == {"where": "/x"}


@pytest.mark.parametrize(
    "planner_input",
    [
        PlannerInput("q"),
        PlannerInput("q", **{key: value for key, value in ALL.items() if key != "templates"}),
        PlannerInput("q", progress=PROGRESS, reason="it failed", split=("1",)),
        PlannerInput("q", progress=PROGRESS, expand=("1",)),
    ],
)
def test_what_was_asked_is_read_back(planner_input: PlannerInput) -> None:
    earlier = ChatMessage("user", "not JSON")
    system, user = planner_messages(planner_input)
    read = read_planner_input([earlier, system, user])
    assert read is not None
    assert asked(read) == asked(planner_input)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, '{"query": 1}', '"query"'])
def test_other_messages_are_no_question_to_a_planner(content: str) -> None:
    system, user = planner_messages(PlannerInput("q"))
    assert read_planner_input([user]) is None
    assert read_planner_input([ChatMessage("user", system.content), user]) is None
    assert read_planner_input([ChatMessage("system", "Be brief."), user]) is None
    assert read_planner_input([system, ChatMessage("assistant", user.content)]) is None
    assert read_planner_input([system, ChatMessage("user", content)]) is None


def test_a_profile_has_what_is_known() -> None:
    assert RoleProfile().known == {}
    assert RoleProfile(("search",), instructions="Be brief.", cost_micro_usd=3).known == {
        "tools": ("search",),
        "instructions": "Be brief.",
        "cost_micro_usd": 3,
    }
    assert RoleProfile((), ("c",), "", 1.5, 0, 0.5).known == {"capabilities": ("c",), "seconds": 1.5, "quality": 0.5}


def test_progress_has_results_and_errors() -> None:
    long = "x" * (MAX_SHOWN + 3)
    task = task_of(
        step("1", tool_name="search", status=SubTaskStatus.COMPLETED, result={"a": 1}),
        step("2", role="writer", status=SubTaskStatus.FAILED, result=long),
        step("3", "1"),
        step("4", status=SubTaskStatus.COMPLETED, result=0),
    )
    assert progress_of(task) == [
        {"id": "1", "description": "Do 1", "status": "completed", "tool_name": "search", "result": {"a": 1}},
        {
            "id": "2",
            "description": "Do 2",
            "status": "failed",
            "role": "writer",
            "result": f"{'x' * MAX_SHOWN} ... [3 characters left out]",
        },
        {"id": "3", "description": "Do 3", "status": "pending"},
        {"id": "4", "description": "Do 4", "status": "completed", "result": 0},
    ]


def test_faults_are_sent_back_as_a_list() -> None:
    fault = PlanFault(FaultKind.CYCLE, "1", "there is a circle")
    assert faults_message([fault, "and more"]) == ChatMessage(
        "user",
        "Your plan cannot be executed:\n- there is a circle\n- and more\n"
        "Reply with the whole corrected plan, as one JSON object and nothing else.",
    )
    lines = faults_message(map(str, range(MAX_FAULTS))).content.splitlines()
    assert lines[1:-1] == [f"- {number}" for number in range(MAX_FAULTS)]
    lines = faults_message(map(str, range(MAX_FAULTS + 2))).content.splitlines()
    assert lines[-3:-1] == [f"- {MAX_FAULTS - 1}", "- and 2 more"]
