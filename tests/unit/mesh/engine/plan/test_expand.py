"""What an expansion makes of a plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine.plan import (
    FaultKind,
    SubTask,
    SubTaskStatus,
    Task,
    due_expansions,
    expanded,
    expansion_faults,
    ready_subtasks,
)

DONE, RUNNING, FAILED = SubTaskStatus.COMPLETED, SubTaskStatus.EXECUTING, SubTaskStatus.FAILED


def sub(id: str, *dependencies: str, **fields: object) -> SubTask:
    return SubTask(id, f"Do {id}", dependencies=dependencies, **fields)  # type: ignore[arg-type]


def task(*subtasks: SubTask) -> Task:
    return Task("t", "q", "g", subtasks, {"a": 1})


def shown(merged: Task) -> dict[str, tuple[str, ...]]:
    return {each.id: each.dependencies for each in merged.subtasks}


def test_a_place_is_due_once_its_dependencies_completed() -> None:
    def due(status: SubTaskStatus, **fields: object) -> tuple[str, ...]:
        return due_expansions(task(sub("a", status=status), sub("x", "a", expand=True, **fields)))

    assert due(SubTaskStatus.PENDING) == due(RUNNING) == due(FAILED) == ()
    assert due(DONE) == ("x",)
    assert due(FAILED, partial_input=True) == ("x",)


def test_a_place_never_starts() -> None:
    assert [each.id for each in ready_subtasks(task(sub("x", expand=True), sub("a")))] == ["a"]


def test_a_failure_with_a_branch_is_due_until_it_is_handled() -> None:
    failed = task(sub("a", status=FAILED, expand_on_failure=True), sub("b", "a", partial_input=True))
    assert due_expansions(failed) == ("a",)
    assert ready_subtasks(failed) == ()
    assert due_expansions(failed, ["a"]) == ()
    assert [each.id for each in ready_subtasks(failed, ["a"])] == ["b"]


def test_what_depends_on_a_place_depends_on_the_last_new_ones() -> None:
    old = task(sub("a", status=DONE), sub("x", "a", expand=True), sub("z", "x", "a"))
    merged = expanded(old, Task("", "", "", (sub("n", "a"), sub("m", "n"), sub("o", "a"))), ["x"])
    assert shown(merged) == {"a": (), "z": ("m", "o", "a"), "n": ("a",), "m": ("n",), "o": ("a",)}
    assert shown(expanded(old, Task("", "", "", ()), ["x"])) == {"a": (), "z": ("a",)}


def test_a_place_that_an_expansion_leaves_is_a_fault() -> None:
    left = task(sub("a", status=DONE), sub("x", "a", expand=True), sub("y", "b", expand=True), sub("b"))
    (fault,) = expansion_faults(left, ["x", "y", "a", "gone"])
    assert (fault.kind, fault.subtask_id) == (FaultKind.NOT_EXPANDED, "x")
    assert fault.message == "subtask 'x' is still to be expanded, though all that it depends on has completed"


def test_new_values_of_the_context_are_added() -> None:
    merged = expanded(task(sub("x", expand=True)), Task("", "", "", (sub("n"),), {"b": 2}), ["x"])
    assert (merged.context, merged.goal, merged.original_query) == ({"a": 1, "b": 2}, "g", "q")


IDS = st.sampled_from("abcdef")
SUBTASKS = st.lists(
    st.builds(
        SubTask,
        IDS,
        st.just("do"),
        dependencies=st.lists(IDS, max_size=2).map(tuple),
        status=st.sampled_from(SubTaskStatus),
        expand=st.booleans(),
        role=st.sampled_from(["", "x"]),
    ),
    max_size=6,
    unique_by=lambda each: each.id,
)


@given(SUBTASKS, SUBTASKS, st.lists(IDS, max_size=3))
def test_nothing_that_has_begun_changes(old: list[SubTask], new: list[SubTask], places: list[str]) -> None:
    merged = expanded(task(*old), Task("", "", "", tuple(new)), places)
    by_id = {each.id: each for each in merged.subtasks}
    assert len(by_id) == len(merged.subtasks)
    for each in old:
        if each.status is not SubTaskStatus.PENDING:
            assert by_id[each.id] == each
        elif each.id not in places:
            assert each.id in by_id
