"""Reading a planner's reply."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.failure_kinds import MODEL_FORMAT
from archon_mesh.engine.plan import EmptyPlan, SubTask, SubTaskStatus, find_faults, repair
from archon_mesh.planning import MalformedPlan, parse_changes, parse_context, parse_plan
from archon_mesh.planning.parse import MAX_CHANGE, MAX_CHANGES, parse_alignment, parse_question
from tests.fixtures.plan_replies import reply, subtask


def read(text: str) -> list[SubTask]:
    return list(parse_plan(text, "Do it", "task-1").subtasks)


def test_a_reply_becomes_a_task_with_its_ids() -> None:
    task = parse_plan(
        reply(
            subtask("a", expected_output="a flight", tool_name="search", tool_args={"to": "Rome"}, critical=True),
            subtask(
                "b", "a", role="writer", capability="text", partial_input=True, estimated_seconds=3, confidence=0.5
            ),
            goal="Fly to Rome",
        ),
        "Fly me to Rome",
        "t",
    )
    assert (task.id, task.original_query, task.goal) == ("t", "Fly me to Rome", "Fly to Rome")
    assert task.subtasks == (
        SubTask("a", "Do a", "a flight", "search", {"to": "Rome"}, critical=True),
        SubTask(
            *("b", "Do b"),
            dependencies=("a",),
            role="writer",
            capability="text",
            partial_input=True,
            estimated_seconds=3.0,
            confidence=0.5,
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "Here is the plan:\n```json\nPLAN\n```\nGood luck!",
        "<think>{not this}</think>\nPLAN",
        "The set {a, b} matters [1].\nPLAN",
        '{"plan": PLAN}',
        "[PLAN]",
        "PLAN\nPLAN",
    ],
)
def test_a_plan_is_found_in_other_text(text: str) -> None:
    assert [each.id for each in read(text.replace("PLAN", reply(subtask("1"))))] == ["1"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dependencies": None}, ()),
        ({"dependencies": "1"}, ("1",)),
        ({"dependencies": "1, 2"}, ("1", "2")),
        ({"dependencies": "1 and 2"}, ("1", "2")),
        ({"dependencies": "none"}, ()),
        ({"dependencies": 1}, ("1",)),
        ({"dependencies": [1, 2.0, "1"]}, ("1", "2")),
        ({"dependencies": [{"id": 1}]}, ("1",)),
        ({"dependencies": {"1": "x"}}, ("1",)),
        ({"depends_on": ["2"]}, ("2",)),
    ],
)
def test_dependencies_are_read_in_any_form(fields: dict[str, Any], expected: tuple[str, ...]) -> None:
    third = {"id": "3", "description": "Do 3", **fields}
    assert read(reply(subtask("1"), subtask("2"), third))[2].dependencies == expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("id", 7, "7"),
        ("id", None, "1"),
        ("description", None, ""),
        ("description", ["a", "b"], '["a", "b"]'),
        ("description", "\ud800", "?"),
        ("tool_name", "None", ""),
        ("tool_name", {"name": "search"}, "search"),
        ("tool_args", None, {}),
        ("tool_args", "{'q': 1}", {"q": 1}),
        ("tool_args", [1], {}),
        ("critical", "yes", True),
        ("critical", "no", False),
        ("critical", 1, True),
        ("estimated_seconds", "30 s", 30.0),
        ("estimated_seconds", -1, 0.0),
        ("estimated_seconds", True, 0.0),
        ("estimated_cost_micro_usd", 12.7, 12),
        ("confidence", 80, 0.8),
        ("confidence", None, 1.0),
        ("confidence", "high", 0.0),
    ],
)
def test_a_value_of_another_type_is_converted(field: str, value: Any, expected: Any) -> None:
    (read_subtask,) = read(reply({"id": "1", "description": "Do 1", field: value}))
    assert getattr(read_subtask, field) == expected


def test_plain_texts_are_steps_one_after_the_other() -> None:
    assert [(each.id, each.description, each.dependencies) for each in read(reply("Find", "Book"))] == [
        ("1", "Find", ()),
        ("2", "Book", ("1",)),
    ]


def test_subtasks_may_be_given_by_id() -> None:
    assert [each.id for each in read('{"subtasks": {"x": {"description": "a"}, "y": {"description": "b"}}}')] == [
        "x",
        "y",
    ]


def test_a_missing_id_gets_one_that_is_free() -> None:
    assert [each.id for each in read(reply(subtask("2"), {"description": "x"}, {"description": "y"}))] == [
        "2",
        "2a",
        "3",
    ]


def test_a_reply_cannot_say_that_a_subtask_is_done() -> None:
    (read_subtask,) = read(reply(subtask("1", status="completed", result="x")))
    assert (read_subtask.status, read_subtask.result) == (SubTaskStatus.PENDING, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no plan"),
        ("I cannot plan this.", "no plan"),
        ('{"goal": "x"}', "no plan"),
        ('{"goal": "x", "subtasks": [{"id": "1", "descri', "cut off"),
        ('{"goal": "x", "subtasks": [{"id": "1", "description": "y"}', "cut off"),
        ('{"subtasks": ' + "[" * 60 + "]" * 60 + "}", "levels deep"),
        ("{" * 5_000, "no plan"),
        ("x" * (1024 * 1024 + 1), "at most 1,048,576"),
        (json.dumps({"subtasks": [{}] * 10_001}), "at most 10,000"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(MalformedPlan, match=message) as raised:
        parse_plan(text, "Do it", "t")
    assert raised.value.kind == MODEL_FORMAT


def test_only_the_last_bracket_may_be_missing() -> None:
    assert len(read(reply(subtask("1")).removesuffix("}"))) == 1


def test_a_question_is_told_from_a_plan() -> None:
    assert parse_question('Sure: {"question": "Which city?"}') == "Which city?"
    assert parse_question(reply(subtask("1"), question="Which city?")) == ""
    assert parse_question("Which city?") == ""


def test_ten_thousand_subtasks_are_read_in_seconds() -> None:
    text = json.dumps({"subtasks": [subtask(str(n), str(n - 1)) for n in range(10_000)]})
    started = time.process_time()
    assert len(read(text)) == 10_000
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "array"}, {"type": "array"}),
        ('{"type": "array"}', {"type": "array"}),
        ({"type": "string", "pattern": "(a+)+$"}, {"type": "string"}),
        ("a list", {}),
        (None, {}),
        ({"description": "x" * 40_000}, {}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_schema_of_a_subtask_is_read(given: Any, expected: dict[str, Any]) -> None:
    text = json.dumps({"subtasks": [{"id": "a", "description": "x", "output_schema": given}]})
    (subtask,) = parse_plan(text, "x", "t").subtasks
    assert subtask.output_schema == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["1", "2", "{1}", "", "x", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)
_FIELDS = (
    "id",
    "description",
    "tool_name",
    "tool_args",
    "dependencies",
    "critical",
    "role",
    "confidence",
    "partial_input",
    "output_schema",
)
_REPLIES = st.builds(
    lambda goal, subtasks: json.dumps({"goal": goal, "subtasks": subtasks}),
    _JSON,
    st.lists(st.dictionaries(st.sampled_from(_FIELDS), _JSON) | _JSON, max_size=6),
)


@given(_REPLIES | st.text(max_size=200) | st.builds(lambda text, end: text[:end], _REPLIES, st.integers(0, 200)))
def test_what_can_be_read_can_be_repaired(text: str) -> None:
    known: dict[str, Any] = {"tools": ["x"], "roles": ["x"], "capabilities": []}
    try:
        task, _ = repair(parse_plan(text, "Do x", "t"), **known)
    except (MalformedPlan, EmptyPlan):
        return
    assert find_faults(task, **known) == ()
    json.dumps([each.tool_args for each in task.subtasks], ensure_ascii=False).encode()


def test_repairs_that_a_planner_reports_are_read() -> None:
    text = '{"subtasks": [{"id": 1, "description": "x"}], "changes": ["a  cycle\\nis broken", 7, ""]}'
    assert parse_changes(text) == ("a cycle is broken", "7")
    assert parse_changes('{"subtasks": [], "changes": "many"}') == ()
    assert parse_changes("no plan") == ()


def test_repairs_that_a_planner_reports_are_bounded() -> None:
    changes = parse_changes(json.dumps({"subtasks": [], "changes": ["x" * 1_000] * 100}))
    assert (len(changes), max(map(len, changes))) == (MAX_CHANGES, MAX_CHANGE)


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"'])
def test_what_is_no_object_has_no_values(text: str) -> None:
    assert parse_context(text) == {}


def test_a_planner_says_that_the_plan_is_aligned() -> None:
    for text in ('{"aligned": true}', 'Well: ```json\n{"aligned": true, "reason": "all is fine"}\n```'):
        assert parse_alignment(text, "query", "t") == (None, "", ())


def test_a_planner_replaces_a_plan_with_a_reason() -> None:
    steps = [{"id": "a", "description": "go"}]
    text = json.dumps({"aligned": False, "reason": "it strays", "subtasks": steps, "changes": ["a cycle is broken"]})
    plan, reason, changes = parse_alignment(text, "query", "t")
    assert plan is not None
    assert ([step.id for step in plan.subtasks], reason, changes) == (["a"], "it strays", ("a cycle is broken",))
    assert parse_alignment(json.dumps({"subtasks": steps}), "query", "t")[1] == "", "of an earlier version"


@pytest.mark.parametrize("text", ["", "yes", '{"aligned": false}', '{"aligned": "true"}', '{"question": "which?"}'])
def test_what_says_neither_is_no_verdict(text: str) -> None:
    with pytest.raises(MalformedPlan):
        parse_alignment(text, "query", "t")
