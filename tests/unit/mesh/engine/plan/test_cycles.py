"""Cycles of a plan are broken at their weakest dependency."""

from __future__ import annotations

import pytest

from archon_mesh.engine.plan.cycles import break_cycles
from archon_mesh.engine.plan.subtask import SubTask
from tests.unit.mesh.engine.plan.plans import step


def broken(*steps: SubTask) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The dependencies that are left, and the changes."""
    after, changes = break_cycles(steps)
    assert [each.id for each in after] == [each.id for each in steps]
    return {each.id: each.dependencies for each in after}, changes


def test_a_plan_without_cycles_is_unchanged() -> None:
    steps = [step("a"), step("b", "a"), step("c", "a", "b")]
    assert break_cycles(steps) == (steps, [])
    assert break_cycles([]) == ([], [])


def test_a_subtask_that_depends_on_itself_no_longer_does() -> None:
    assert broken(step("a", "a"), step("b", "a", "b")) == (
        {"a": (), "b": ("a",)},
        [
            "subtask 'a' no longer depends on 'a': they formed a cycle",
            "subtask 'b' no longer depends on 'b': they formed a cycle",
        ],
    )


def test_each_of_several_cycles_is_broken() -> None:
    left, changes = broken(step("a", "b"), step("b", "a"), step("c", "d", "a"), step("d", "c"))
    assert left == {"a": (), "b": ("a",), "c": ("a",), "d": ("c",)}
    assert len(changes) == 2


def test_of_equal_dependencies_the_one_written_last_is_the_weakest() -> None:
    uses = {"tool_name": "t", "tool_args": {"x": "{a} {b}"}}
    left, changes = broken(step("a", "b", **uses), step("b", "a", **uses))
    assert left == {"a": (), "b": ("a",)}, "b comes after a"
    assert changes == ["subtask 'a' no longer depends on 'b': they formed a cycle"]
    assert broken(step("c", "e"), step("d", "c"), step("e", "d"), step("a", "d"))[0]["c"] == ()


def test_data_weighs_more_than_the_order() -> None:
    forward = step("a", "b", tool_name="t", tool_args={"x": "{b.price}"})
    assert broken(forward, step("b", "a"))[0] == {"a": ("b",), "b": ()}


def test_partial_input_weighs_less_than_the_order() -> None:
    assert broken(step("a", "b"), step("b", "a", partial_input=True))[0] == {"a": ("b",), "b": ()}


def test_arguments_that_cannot_be_read_use_nothing() -> None:
    deep: object = "{a}"
    for _ in range(40):
        deep = [deep]
    assert broken(step("a", "b"), step("b", "a", tool_args={"x": deep}))[0] == {"a": (), "b": ("a",)}


@pytest.mark.parametrize("pairs", [100, 101, 800])
def test_of_very_many_cycles_the_rest_is_broken_at_once(pairs: int) -> None:
    steps = [each for n in range(pairs) for each in (step(f"a{n}", f"b{n}", "x"), step(f"b{n}", f"a{n}", "x"))]
    left, changes = broken(step("x"), *steps)
    assert all(left[f"a{n}"] == ("x",) and left[f"b{n}"] == (f"a{n}", "x") for n in range(pairs))
    if pairs == 100:
        assert len(changes) == 100
    else:
        alone = 100 if pairs == 101 else 0
        assert len(changes) == alone + 1
        assert changes[-1] == f"{pairs - alone} dependencies on later subtasks are dropped: there were too many cycles"


def test_only_dependencies_within_cycles_are_dropped() -> None:
    pairs = [each for n in range(700) for each in (step(f"a{n}", f"b{n}"), step(f"b{n}", f"a{n}"))]
    left, _ = broken(step("first", "last"), *pairs, step("self", "self"), step("last"))
    assert left["first"] == ("last",), "on a later subtask, but in no cycle"
    assert left["self"] == ()
