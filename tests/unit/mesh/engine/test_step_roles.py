"""Which role executes a step of a plan."""

from __future__ import annotations

import pytest

from archon_mesh.engine.decide.step_roles import assigned, binding_faults
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task
from archon_mesh.engine.types import PlanTarget

BOOKER = PlanTarget("booker", "Books hotels and flights.", False, ("booking",), ("book", "search"), 2.5, 40)
WRITER = PlanTarget("writer", "Writes texts.", False, ("writing", "booking"), ("search",))
TIMED = PlanTarget("timed", "", seconds=3.0)
PRICED = PlanTarget("priced", "", cost_micro_usd=7)
TARGETS = (WRITER, BOOKER, TIMED, PRICED)


def role_of(description: str = "Do it.", **fields: object) -> str:
    step = SubTask("1", description, **fields)  # type: ignore[arg-type]
    (after,) = assigned(Task("", "", "", (step,)), TARGETS).subtasks
    return after.role


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"role": "timed"}, "timed"),
        ({"tool_name": "book"}, "booker"),
        ({"tool_name": "search"}, "writer"),
        ({"capability": "booking"}, "writer"),
        ({"capability": "writing"}, "writer"),
        ({"tool_name": "book", "capability": "booking"}, "booker"),
        ({"tool_name": "book", "capability": "writing"}, "booker"),
        ({"role": "writer", "tool_name": "search"}, "writer"),
        ({"role": "writer", "tool_name": "book"}, "booker"),
        ({"role": "timed", "capability": "writing"}, "writer"),
        ({"tool_name": "gone", "capability": "writing"}, "writer"),
        ({"tool_name": "gone", "description": "Book a hotel."}, "booker"),
        ({"description": "Book a flight."}, "booker"),
        ({"description": "Write the texts."}, "writer"),
        ({"description": "Sing!"}, "writer"),
        ({"description": "The priced one."}, "priced"),
    ],
)
def test_a_step_goes_to_the_first_role_that_can_execute_it(fields: dict[str, object], role: str) -> None:
    assert role_of(**fields) == role  # type: ignore[arg-type]


def test_without_a_role_to_choose_a_step_stays_as_it_is() -> None:
    plan = Task("", "", "", (SubTask("1", "Do it.", role="gone"),))
    assert assigned(plan, ()) == plan


def test_a_step_that_has_ended_or_is_to_be_expanded_names_no_role() -> None:
    ended = SubTask("1", "Book it.", status=SubTaskStatus.COMPLETED)
    place = SubTask("2", "Book it.", expand=True)
    assert assigned(Task("", "", "", (ended, place)), TARGETS).subtasks == (ended, place)


def test_a_step_has_the_estimates_of_its_role_if_it_has_none() -> None:
    steps = (
        SubTask("1", "", role="booker"),
        SubTask("2", "", role="booker", estimated_seconds=1.0),
        SubTask("3", "", role="booker", estimated_cost_micro_usd=1),
        SubTask("4", "", role="writer", estimated_seconds=9.0),
        SubTask("5", "", role="timed"),
        SubTask("6", "", role="priced"),
    )
    after = assigned(Task("", "", "", steps), TARGETS).subtasks
    assert [(step.estimated_seconds, step.estimated_cost_micro_usd) for step in after] == [
        (2.5, 40), (1.0, 40), (2.5, 1), (9.0, 0), (3.0, 0), (0.0, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, ""),
        ({"role": "gone"}, ""),
        ({"tool_name": "book"}, ""),
        ({"tool_name": "book", "capability": "booking"}, ""),
        ({"tool_name": "book", "status": SubTaskStatus.FAILED, "role": "writer"}, ""),
        ({"tool_name": "book", "role": "writer"}, "the role 'writer' does not have the tool 'book'"),
        ({"capability": "writing", "role": "booker"}, "the role 'booker' does not have the capability 'writing'"),
        (
            {"tool_name": "book", "capability": "writing"},
            "no role has the tool 'book' and the capability 'writing'",
        ),
    ],
)
def test_a_step_that_no_role_can_execute_is_named(fields: dict[str, object], fault: str) -> None:
    plan = Task("", "", "", (SubTask("other", "Do it."), SubTask("a", "Do it.", **fields)))  # type: ignore[arg-type]
    assert list(binding_faults(plan, TARGETS)) == ([("a", f"subtask 'a': {fault}")] if fault else [])
