"""The repair of plans."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given

from archon_mesh.engine.plan import EmptyPlan, FaultKind, Plan, SubTaskStatus, Task, find_faults, repair
from archon_mesh.engine.plan.nearest_name import nearest_name
from tests.unit.mesh.engine.plan.plans import TASKS, step, task_of

KNOWN: dict[str, Any] = {"tools": ["calculator", "search"], "roles": ["search"], "capabilities": ["calculator"]}
ANY: dict[str, Any] = {"tools": None, "roles": None, "capabilities": None}


@given(TASKS)
def test_a_repaired_plan_has_no_faults(task: Task) -> None:
    try:
        repaired, _ = repair(task, **KNOWN)
    except EmptyPlan:
        assert not any(char.isalnum() for subtask in task.subtasks for char in subtask.description)
        return
    assert find_faults(repaired, **KNOWN) == ()
    assert Plan.of(repaired).execution_order


@given(TASKS)
def test_a_repaired_plan_is_not_changed_again(task: Task) -> None:
    try:
        repaired, _ = repair(task, **KNOWN)
    except EmptyPlan:
        return
    assert repair(repaired, **KNOWN) == (repaired, ())


def test_a_plan_without_subtasks_is_refused() -> None:
    with pytest.raises(EmptyPlan):
        repair(task_of(), **ANY)


def test_a_plan_that_says_nothing_is_refused() -> None:
    with pytest.raises(EmptyPlan):
        repair(task_of(step("1", description="..."), query="?"), **ANY)


def test_a_dependency_on_no_subtask_is_dropped() -> None:
    repaired, changes = repair(task_of(step("1", "9")), **ANY)
    assert repaired.subtasks == (step("1"),)
    assert changes == ("subtask '1' no longer depends on '9', which is no subtask",)


def test_the_edge_without_data_is_the_weakest() -> None:
    uses = step("b", "a", tool_name="t", tool_args={"x": "{a}"})
    repaired, _ = repair(task_of(step("a", "b"), uses), **ANY)
    assert repaired.subtasks == (step("a"), uses)


def test_an_edge_into_partial_input_is_weaker_than_others() -> None:
    repaired, _ = repair(task_of(step("a", "b"), step("b", "a", partial_input=True)), **ANY)
    assert repaired.subtasks == (step("a", "b"), step("b", partial_input=True))


def test_an_edge_against_the_order_is_the_weakest() -> None:
    repaired, _ = repair(task_of(step("a", "c"), step("b", "a"), step("c", "b")), **ANY)
    assert repaired.subtasks == (step("a"), step("b", "a"), step("c", "b"))


def test_an_unknown_tool_becomes_the_nearest_one() -> None:
    repaired, changes = repair(task_of(step("1", tool_name="Calculater", tool_args={"x": 1})), **KNOWN)
    assert repaired.subtasks[0].tool_name == "calculator"
    assert repaired.subtasks[0].tool_args == {"x": 1}
    assert changes == ("subtask '1' has the tool 'calculator' instead: there is no 'Calculater'",)


def test_an_unknown_tool_without_a_near_one_is_dropped() -> None:
    repaired, _ = repair(task_of(step("1", tool_name="book_flight", tool_args={"x": 1})), **KNOWN)
    assert (repaired.subtasks[0].tool_name, repaired.subtasks[0].tool_args) == ("", {})


def test_of_two_equally_near_tools_neither_is_taken() -> None:
    known: dict[str, Any] = {"tools": ["send_a", "send_b"], "roles": None, "capabilities": None}
    repaired, _ = repair(task_of(step("1", tool_name="send_c")), **known)
    assert repaired.subtasks[0].tool_name == ""


def test_too_many_steps_of_one_tool_are_merged() -> None:
    steps = [step(f"s{n}", tool_name="search", tool_args={"q": n}) for n in range(25)]
    last = step("last", *(each.id for each in steps), tool_name="calculator", tool_args={"x": "{s3}"})
    repaired, _ = repair(task_of(*steps, last), **KNOWN)
    assert len(repaired.subtasks) == 20
    merged = repaired.subtasks[0]
    assert merged.description.startswith("Do s0; then Do s1")
    assert merged.tool_args == {}
    assert repaired.subtasks[-1].tool_args == {"x": "{s0}"}


def test_too_many_steps_of_all_kinds_end_in_one_step() -> None:
    steps = [step(f"s{n}", tool_name=("search", "calculator")[n % 2]) for n in range(30)]
    repaired, _ = repair(task_of(*steps), **KNOWN)
    assert len(repaired.subtasks) == 20
    assert repaired.subtasks[-1].tool_name == ""
    assert "Do s29" in repaired.subtasks[-1].description


def test_a_step_without_purpose_hands_on_its_dependencies() -> None:
    repaired, _ = repair(task_of(step("a"), step("b", "a", description="-"), step("c", "b")), **ANY)
    assert repaired.subtasks == (step("a"), step("c", "a"))


def test_a_used_result_becomes_a_dependency() -> None:
    uses = step("b", tool_name="t", tool_args={"x": "{a.price}"})
    repaired, _ = repair(task_of(step("a"), uses), **ANY)
    assert repaired.subtasks[1].dependencies == ("a",)


def test_a_template_without_value_becomes_plain_text() -> None:
    repaired, _ = repair(task_of(step("a", tool_name="t", tool_args={"x": "f{n}"})), **ANY)
    assert repaired.subtasks[0].tool_args == {"x": "f{{n}}"}


def test_a_plan_with_neither_goal_nor_query_keeps_its_goal() -> None:
    repaired, changes = repair(task_of(step("a"), query=" ", goal=""), **ANY)
    assert (repaired.goal, changes) == ("", ())


def test_a_wrong_goal_becomes_the_query() -> None:
    repaired, _ = repair(task_of(step("a"), query="Find a hotel", goal="Bake bread"), **ANY)
    assert repaired.goal == "Find a hotel"


def test_a_completed_subtask_is_kept_as_it_is() -> None:
    done = step("a", tool_name="gone", description="", status=SubTaskStatus.COMPLETED, result=1)
    repaired, changes = repair(task_of(done, step("b", "a")), **KNOWN)
    assert repaired.subtasks == (done, step("b", "a"))
    assert changes == ()


@pytest.mark.large
def test_ten_thousand_subtasks_in_cycles_end_in_seconds() -> None:
    size = 10_000
    steps = [step(str(n), str((n + 1) % size), str((n * 7) % size), str(n), "gone") for n in range(size)]
    started = time.process_time()
    repaired, _ = repair(task_of(*steps), **KNOWN)
    assert len(repaired.subtasks) == 20
    assert time.process_time() - started < 30


def test_all_kinds_of_faults_are_found() -> None:
    task = task_of(
        step("a", "b", tool_name="gone"),
        step("b", "a", role="gone"),
        step("d", capability="gone"),
        step("d"),
        step("c", "nowhere", description="-"),
        step("e", decision="toss", quorum=2),
        step("f", "s1", decision="vote", tool_args={"least": 2}),
        step("g", "s1", assigned_by="s1"),
        step("h", delay_quantile=0.5),
        *(step(f"s{n}") for n in range(20)),
        query="Find a hotel",
        goal="Bake bread",
    )
    kinds = {fault.kind for fault in find_faults(task, **KNOWN)}
    kinds |= {fault.kind for fault in find_faults(task_of(), **KNOWN)}
    kinds |= {fault.kind for fault in find_faults(task_of(step("1", tool_args={"x": "{2}"})), **KNOWN)}
    deep: list[object] = []
    for _ in range(40):
        deep = [deep]
    kinds |= {fault.kind for fault in find_faults(task_of(step("1", tool_args={"x": deep})), **KNOWN)}
    assert kinds == set(FaultKind) - {FaultKind.NOT_EXPANDED}, "which is a fault of an expansion"


@pytest.mark.parametrize(
    ("name", "names", "nearest"),
    [
        ("serch", ["search", "book"], "search"),
        ("Search", ["search", "book"], "search"),
        ("search-web", ["search_web"], "search_web"),
        ("search", ["web.search", "book"], "web.search"),
        ("functions.search", ["search"], "search"),
        ("search", ["a.search", "b.search"], None),
        ("set", ["get"], "get"),
        ("go", ["do"], None),
        ("x" * 200, ["x" * 199], None),
        ("", ["a"], None),
        ("abcdef", ["abXYef"], "abXYef"),
        ("abcdef", ["aXYZef"], None),
        ("aaa", ["aaaa"], "aaaa"),
    ],
)
def test_the_nearest_name_is_the_only_close_one(name: str, names: list[str], nearest: str | None) -> None:
    assert nearest_name(name, names) == nearest


@pytest.mark.large
def test_many_unknown_names_are_dropped_without_long_comparisons() -> None:
    tools = [f"tool_no_{n}" for n in range(1_000)]
    steps = [step(str(n), tool_name=f"tool_nr_{n}") for n in range(1_000)]
    started = time.process_time()
    repaired, _ = repair(task_of(*steps), tools=tools, roles=None, capabilities=None, max_subtasks=1_000)
    assert {subtask.tool_name for subtask in repaired.subtasks} - {""} <= set(tools)
    assert time.process_time() - started < 20


def test_each_fault_says_what_is_wrong() -> None:
    deep: object = "x"
    for _ in range(40):
        deep = [deep]
    task = task_of(
        step("a", "c", "nowhere", tool_name="gone", role="away", capability="lost"),
        step("b", description="-"),
        step("b"),
        step("c", "a", tool_args={"x": deep}),
        query="Find a hotel",
        goal="Bake bread",
    )
    assert [
        (fault.kind.value, fault.subtask_id, fault.message) for fault in find_faults(task, **KNOWN, max_subtasks=3)
    ] == [
        ("dangling_dependency", "a", "subtask 'a' depends on 'nowhere', which is no subtask"),
        ("duplicate_id", "b", "two subtasks have the id 'b'"),
        ("cycle", "a", "the subtasks depend on each other in a circle: a -> c -> a"),
        ("too_many_steps", "", "the plan has 4 subtasks; at most 3 are allowed"),
        ("unknown_tool", "a", "subtask 'a' names the tool 'gone', which does not exist"),
        ("unknown_role", "a", "subtask 'a' names the role 'away', which does not exist"),
        ("unknown_capability", "a", "subtask 'a' names the capability 'lost', which does not exist"),
        ("step_without_purpose", "b", "subtask 'b' does not say what is to be done"),
        ("wrong_goal", "", "the goal 'Bake bread' is not about the query"),
    ]
    (empty,) = find_faults(task_of(), **KNOWN)
    assert (empty.kind.value, empty.subtask_id, empty.message) == ("empty_plan", "", "the plan has no subtask")
    (missing,) = find_faults(task_of(step("a", tool_args={"x": "{city}"})), **KNOWN)
    assert (missing.kind.value, missing.subtask_id, missing.message) == (
        "missing_template_key",
        "a",
        "subtask 'a' uses {city}, which is neither a subtask that it depends on nor a value of the context",
    )
    (large,) = find_faults(task_of(step("a", tool_args={"x": deep})), **KNOWN)
    assert (large.kind.value, large.subtask_id, large.message) == (
        "arguments_too_large",
        "a",
        "subtask 'a': the arguments of the subtask have more than 32 levels",
    )


def test_a_template_of_an_ancestor_or_of_the_context_is_no_fault() -> None:
    uses = step("c", "b", tool_args={"x": "{a} {city.name}"})
    assert find_faults(task_of(step("a"), step("b", "a"), uses, context={"city": "Rome"}), **ANY) == ()
    (fault,) = find_faults(task_of(step("a"), step("b"), uses, context={"city": "Rome"}), **ANY)
    assert "{a}" in fault.message


def test_each_repair_is_a_line() -> None:
    deep: object = "x"
    for _ in range(40):
        deep = [deep]
    same = step("a")
    task = task_of(
        same,
        same,
        step("a", "nowhere", description="Other"),
        step("d", tool_args={"x": deep}),
        step("e", description="-"),
        step("f", tool_args={"x": "{d} {city}"}, role="serch", capability="lost"),
        query="Find a hotel",
        goal="Bake bread",
    )
    _, changes = repair(task, **KNOWN)
    assert changes == (
        "the goal is the query again: 'Bake bread' is not about it",
        "subtask 'a' is left out: it stands there twice",
        "the second subtask 'a' is now 'a-2'",
        "subtask 'a-2' no longer depends on 'nowhere', which is no subtask",
        "the arguments of subtask 'd' are dropped: they are too deep",
        "subtask 'e' is merged into what follows it: it does not say what is to be done",
        "subtask 'f' has the role 'search' instead: there is no 'serch'",
        "subtask 'f' has the capability none: there is no 'lost'",
        "subtask 'f' now depends on 'd', whose result it uses",
        "{city} is plain text in subtask 'f': there is no such value",
    )


def test_a_plan_of_empty_steps_becomes_its_goal() -> None:
    repaired, changes = repair(task_of(step("a", description="-"), step("b", "a", description="-")), **ANY)
    assert repaired.subtasks == (step("a", description="Do it"),)
    assert changes == (
        "subtask 'a' has the goal as its description: no step said what is to be done",
        "subtask 'b' is merged into what follows it: it does not say what is to be done",
    )


def test_plans_that_cannot_be_repaired_say_why() -> None:
    with pytest.raises(EmptyPlan, match=r"^the plan has no subtask$"):
        repair(task_of(), **ANY)
    with pytest.raises(EmptyPlan, match=r"^no subtask says what is to be done, and neither does the query$"):
        repair(task_of(step("1", description="..."), query="?"), **ANY)


def test_merged_steps_keep_a_schema_that_all_have() -> None:
    for schemas, expected in ((({"type": "array"},) * 2, {"type": "array"}), (({"type": "array"}, {}), {})):
        steps = [step(name, output_schema=schema) for name, schema in zip("ab", schemas, strict=True)]
        repaired, _ = repair(task_of(*steps), **KNOWN, max_subtasks=1)
        assert [each.output_schema for each in repaired.subtasks] == [expected]


def test_merged_steps_keep_what_each_of_them_needs() -> None:
    common = {"tool_name": "search", "tool_args": {"q": 1}}
    steps = [
        step("first"),
        step("a", "first", expected_output="A", estimated_seconds=1.0, estimated_cost_micro_usd=2, confidence=0.9, **common),
        step("b", "a", expected_output="B", estimated_seconds=4.0, estimated_cost_micro_usd=8, confidence=0.5, critical=True,
             checkpoint=True, partial_input=True, **common),
        step("c", "b", expected_output="A", **common),
        step("last", "c", tool_name="calculator", tool_args={"x": "{b}"}),
    ]  # fmt: skip
    repaired, changes = repair(task_of(*steps), **KNOWN, max_subtasks=3)
    assert changes == ("subtasks a, b, c are merged: the plan has more than 3",)
    first, merged, last = repaired.subtasks
    assert first == steps[0]
    assert merged == step(
        "a",
        "first",
        description="Do a; then Do b; then Do c",
        expected_output="A; B",
        tool_name="search",
        tool_args={"q": 1},
        critical=True,
        checkpoint=True,
        estimated_seconds=5.0,
        estimated_cost_micro_usd=10,
        confidence=0.5,
    )
    assert last == step("last", "a", tool_name="calculator", tool_args={"x": "{a}"})


def test_only_as_many_steps_are_merged_as_necessary() -> None:
    steps = [step(name) for name in "abcdef"]
    repaired, _ = repair(task_of(*steps), **ANY, max_subtasks=4)
    assert [each.id for each in repaired.subtasks] == ["a", "d", "e", "f"]
    done = step("done", status=SubTaskStatus.COMPLETED)
    repaired, changes = repair(task_of(done, *steps), **ANY, max_subtasks=6)
    assert (repaired.subtasks, changes) == ((done, *steps), ()), "what has ended does not count"


def test_steps_of_different_kinds_are_merged_at_the_end_of_the_plan() -> None:
    steps = [step("a", tool_name="search"), step("b", role="search"), step("c"), step("d", tool_name="search")]
    repaired, changes = repair(task_of(*steps), **KNOWN, max_subtasks=2)
    assert changes == ("subtasks b, c, d are merged: the plan has more than 2",)
    assert repaired.subtasks[1] == step("b", description="Do b; then Do c; then Do d")


def test_a_decision_that_cannot_be_made_is_dropped() -> None:
    task = task_of(
        step("a"),
        step("b", "a", decision="toss", tool_args={"x": "{y}"}),
        step("c", decision="vote"),
        step("d", "a", decision="vote", tool_args={"least": 7}),
        step("e", "a", decision="first", tool_name="search"),
        step("f", "a", "b", quorum=9),
    )
    repaired, changes = repair(task, **KNOWN)
    assert [each.decision for each in repaired.subtasks] == ["", "", "", "vote", "first", ""]
    assert [dict(each.tool_args) for each in repaired.subtasks] == [{}] * 6
    assert [each.tool_name for each in repaired.subtasks] == [""] * 6
    assert repaired.subtasks[-1].quorum == 0
    assert len(changes) == 5
    assert find_faults(repaired, **KNOWN) == ()


def test_steps_that_decide_or_wait_for_a_quorum_are_not_merged() -> None:
    members = [step(f"m{n}") for n in range(10)]
    ids = [each.id for each in members]
    others = [step(f"z{n}") for n in range(9)]
    task = task_of(*members, step("x", *ids, decision="vote"), step("y", *ids, quorum=2), *others)
    repaired, _ = repair(task, **KNOWN)
    assert {each.decision for each in repaired.subtasks} == {"", "vote"}
    assert find_faults(repaired, **KNOWN) == ()
