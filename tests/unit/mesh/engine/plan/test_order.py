"""The order of a plan, and its subtasks."""

from __future__ import annotations

import pickle
import time

import pytest
from hypothesis import given

from archon.errors import InvalidArgument, NotFound
from archon_mesh.engine.plan import (
    DanglingDependency,
    DuplicateSubTask,
    EmptyPlan,
    Plan,
    PlanCycle,
    SubTask,
    SubTaskStatus,
    Task,
)
from tests.unit.mesh.engine.plan.plans import plans, step, task_of


def test_the_dag_has_the_subtasks_that_depend_on_each() -> None:
    plan = Plan.of(task_of(step("a"), step("b", "a"), step("c", "a", "b")))
    assert plan.subtask_dag == {"a": ["b", "c"], "b": ["c"], "c": []}
    assert (plan.task_id, plan.execution_order) == ("task-1", ["a", "b", "c"])


def test_a_valid_order_of_the_subtasks_is_kept() -> None:
    assert Plan.of(task_of(step("a"), step("b", "a"), step("c"))).execution_order == ["a", "b", "c"]


def test_ties_are_in_the_order_of_the_subtasks() -> None:
    assert Plan.of(task_of(step("z", "m"), step("m"), step("a"))).execution_order == ["m", "z", "a"]


@given(plans())
def test_each_subtask_comes_after_its_dependencies(task: Task) -> None:
    order = Plan.of(task).execution_order
    assert sorted(order) == sorted(subtask.id for subtask in task.subtasks)
    for subtask in task.subtasks:
        assert all(order.index(id_) < order.index(subtask.id) for id_ in subtask.dependencies)


def test_a_cycle_is_named_by_its_subtasks_alone() -> None:
    with pytest.raises(PlanCycle) as raised:
        Plan.of(task_of(step("a"), step("b", "a", "d"), step("c", "b"), step("d", "c"), step("e", "d")))
    assert raised.value.cycle == ("b", "c", "d")
    assert isinstance(raised.value, InvalidArgument)
    assert (raised.value.reason, raised.value.kind) == ("CYCLE", "planning.cycle")
    assert pickle.loads(pickle.dumps(raised.value)).cycle == ("b", "c", "d")


def test_a_subtask_that_depends_on_itself_is_a_cycle() -> None:
    with pytest.raises(PlanCycle) as raised:
        Plan.of(task_of(step("a", "a")))
    assert raised.value.cycle == ("a",)
    assert raised.value.message == "the subtasks depend on each other in a circle: a -> a"
    assert raised.value.metadata == {"cycle": "a -> a"}
    assert len(PlanCycle(["x" * 500]).message) < 300, "a long path is cut"


@pytest.mark.parametrize("missing", ["9", ""])
def test_a_dependency_on_no_subtask_is_refused(missing: str) -> None:
    with pytest.raises(DanglingDependency, match=f"depends on '{missing}'"):
        Plan.of(task_of(step("a", missing)))


def test_two_subtasks_with_one_id_are_refused() -> None:
    with pytest.raises(DuplicateSubTask, match=r"^two subtasks have the id 'a'$"):
        Plan.of(task_of(step("a"), step("a")))


def test_a_task_without_subtasks_is_refused() -> None:
    with pytest.raises(EmptyPlan, match=r"^task task-1 has no subtasks$"):
        Plan.of(task_of())


@pytest.mark.large
def test_the_order_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        task = task_of(*(step(str(n), *(str(m) for m in (n + 1, n + 2, n + 3) if m < size)) for n in range(size)))
        started = time.process_time()
        Plan.of(task)
        return time.process_time() - started

    # 16 times as many subtasks, which would take 256 times as long in quadratic time.
    assert min(seconds(8_000) for _ in range(3)) < 100 * min(seconds(500) for _ in range(3))


def test_a_subtask_takes_lists_and_the_names_of_states() -> None:
    subtask = SubTask("2", "Book", "a booking", "book", {"x": 1}, ["1"], "pending")  # type: ignore[arg-type]
    assert (subtask.dependencies, subtask.status) == (("1",), SubTaskStatus.PENDING)


def test_a_subtask_is_ready_when_its_dependencies_completed() -> None:
    subtask = step("c", "a", "b")
    assert not subtask.is_ready({"a"})
    assert subtask.is_ready({"a", "b"})
    assert not subtask.with_status(SubTaskStatus.EXECUTING).is_ready({"a", "b"})


def test_a_result_completes_a_subtask() -> None:
    done = step("a").with_result({"price": 3})
    assert (done.status, done.result) == (SubTaskStatus.COMPLETED, {"price": 3})


def test_a_task_is_updated_by_a_new_one() -> None:
    task = task_of(step("a"), step("b"))
    updated = task.update_subtask(step("a").with_result("done"))
    assert task.get_subtask("a") == step("a")
    assert updated.get_subtask("a") == step("a").with_result("done")
    assert [subtask.id for subtask in updated.subtasks] == ["a", "b"]


def test_an_unknown_subtask_is_none_and_not_updated() -> None:
    assert task_of(step("a")).get_subtask("b") is None
    with pytest.raises(NotFound, match=r"^task task-1 has no subtask 'b'$"):
        task_of(step("a")).update_subtask(step("b"))
