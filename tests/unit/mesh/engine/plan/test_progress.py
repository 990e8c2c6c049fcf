"""The progress of a plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine.plan import SubTaskStatus, Task, has_ended, ready_subtasks, skip_dependants
from tests.unit.mesh.engine.plan.plans import plans, step, task_of

DONE, FAILED, SKIPPED = SubTaskStatus.COMPLETED, SubTaskStatus.FAILED, SubTaskStatus.SKIPPED


def statuses(task: Task) -> dict[str, str]:
    return {subtask.id: subtask.status.value for subtask in task.subtasks}


def test_what_waits_for_completed_subtasks_alone_is_ready() -> None:
    task = task_of(step("a", status=DONE), step("b", "a"), step("c", "b"), step("d", status=SubTaskStatus.EXECUTING))
    assert [subtask.id for subtask in ready_subtasks(task)] == ["b"]


def test_partial_input_starts_when_a_dependency_failed() -> None:
    task = task_of(step("a", status=FAILED), step("b"), step("c", "a", "b", partial_input=True))
    assert [subtask.id for subtask in ready_subtasks(task)] == ["b"]
    task = task.update_subtask(step("b", status=DONE))
    assert [subtask.id for subtask in ready_subtasks(task)] == ["c"]


def test_dependants_are_skipped_except_with_partial_input() -> None:
    task = task_of(
        step("a", status=FAILED),
        step("b", "a"),
        step("c", "b"),
        step("d", "c", partial_input=True),
        step("e", "d"),
        step("f"),
    )
    assert list(statuses(skip_dependants(task, "a")).values()) == ["failed", *["skipped"] * 2, *["pending"] * 3]


@given(plans(), st.data())
def test_every_plan_ends_whatever_fails(task: Task, data: st.DataObject) -> None:
    for _ in range(len(task.subtasks)):
        if has_ended(task):
            break
        ready = ready_subtasks(task)
        assert ready, f"blocked for ever: {statuses(task)}"
        subtask = data.draw(st.sampled_from(ready))
        status = data.draw(st.sampled_from([DONE, FAILED]))
        task = task.update_subtask(subtask.with_status(status))
        if status is FAILED:
            task = skip_dependants(task, subtask.id)
    assert has_ended(task)
