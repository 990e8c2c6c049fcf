"""A run with a plan as it is followed and shown: steps with what they do, planners with what they make, replans."""

from __future__ import annotations

import io

import pytest

from archon.api.common.v1 import common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import RunEvent
from archon_services.cli.render.run_report import run_report
from archon_services.cli.render.run_screen import LineScreen, TreeScreen
from archon_services.cli.render.run_text import run_event_text, task_text
from tests.unit.services.cli.render.run_events import COMPLETED, dispatched, event, numbered, result

FAILED, CANCELED = common_pb2.TASK_STATE_FAILED, common_pb2.TASK_STATE_CANCELED


def created(task: str, role: str, step: str = "", *predecessors: str) -> run_pb2.RunEvent:
    state = run_pb2.TaskStateChanged(
        role=role, state=common_pb2.TASK_STATE_SUBMITTED, step_id=step, predecessors=predecessors
    )
    return event(task, 0, task_state=state)


def planned(revision: int, *steps: str, reason: str = "") -> run_pb2.RunEvent:
    plan = plan_pb2.Plan(goal="a trip", revision=revision)
    for step in steps:
        plan.steps.add(step_id=step, description=f"Do {step}", role="clerk", estimated_seconds=5)
    return event("r.1", 1, planned=run_pb2.Planned(plan=plan, reason=reason))


def replanned_run() -> list[run_pb2.RunEvent]:
    """A plan of two steps, the second of which fails; the second plan has another one in its place."""
    return numbered(
        event(submitted=run_pb2.Submitted(strategy=run_pb2.STRATEGY_PLAN)),
        created("r.1", "planner"),
        dispatched("r.1", "planner"),
        result("r.1", "planner"),
        planned(1, "flight", "hotel"),
        created("r.2", "clerk", "flight"),
        created("r.3", "clerk", "hotel", "r.2"),
        dispatched("r.2", "clerk"),
        result("r.2", "clerk"),
        dispatched("r.3", "clerk"),
        result("r.3", "clerk", FAILED),
        created("r.4", "planner"),
        dispatched("r.4", "planner"),
        result("r.4", "planner"),
        planned(2, "flight", "hostel"),
        created("r.5", "clerk", "hostel", "r.2"),
        dispatched("r.5", "clerk"),
        created("r.6", "planner", "", "r.2"),
        first=1,
    )


def view_of(events: list[run_pb2.RunEvent]) -> RunView:
    view = RunView()
    for each in events:
        view.apply(RunEvent(each))
    return view


def test_tasks_say_what_they_are_for() -> None:
    view = view_of(replanned_run())
    assert [task.label for task in view.tasks.values()] == [
        "planner (plan 1)",
        "clerk (flight)",
        "clerk (hotel)",
        "planner (plan 2)",
        "clerk (hostel)",
        "planner (answer)",
    ]
    assert task_text(view, view.tasks["r.5"]) == "working  on clerk-x  Do hostel"
    assert "Do" not in task_text(view, view.tasks["r.2"]), "what has ended is in the answer"


def test_a_replan_is_a_line_of_its_own() -> None:
    view = RunView()
    lines = []
    for each in replanned_run():
        view.apply(RunEvent(each))
        if text := run_event_text(view, each):
            lines.append(text)
    assert lines[1:] == ["plan 1 made: 2 steps", "plan 2 made, replaces plan 1: 2 steps"]


def test_lines_name_steps_and_attempts(capsys: pytest.CaptureFixture[str]) -> None:
    screen = LineScreen()
    for each in (*replanned_run(), dispatched("r.5", "clerk", 2)):
        screen.event(each)
    err = capsys.readouterr().err
    assert "clerk (hotel)      waiting for clerk (flight)  Do hotel" in err
    assert "planner (plan 2)   working  on planner-x" in err
    assert "clerk (hostel)     working  on clerk-x  attempt 2  Do hostel" in err


def test_the_tree_fits_a_terminal_of_80_columns() -> None:
    from rich.console import Console

    screen = TreeScreen()
    for each in replanned_run():
        screen._view.apply(RunEvent(each))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(screen._tree())
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("clerk (" in line for line in lines) == 3
    assert any("✘ clerk (hotel)" in line for line in lines)


def test_the_report_has_steps_with_their_estimates() -> None:
    run = run_pb2.Run(run_id="r", state=COMPLETED, strategy=run_pb2.STRATEGY_PLAN)
    run.create_time.seconds, run.end_time.seconds = 100, 110
    run.plan.revision = 2
    run.plan.changes.append("a cycle is broken")
    run.plan.steps.add(step_id="flight", description="Do flight", task_id="r.2", estimated_seconds=5)
    for task_id, step, role in (("r.1", "", "planner"), ("r.2", "flight", "clerk"), ("r.3", "hotel", "clerk")):
        task = run.tasks.add(task_id=task_id, role=role, step_id=step, state=COMPLETED, attempt=1)
        task.start_time.seconds, task.end_time.seconds = 101, 103
    lines = [text for text, _ in run_report(run, 200.0, view_of(replanned_run()[:3]))]
    assert "  plan        2, 1 step, ~5 s, 1 repair" in lines
    assert "├── planner (plan 1)  completed  attempt 1  2.00 s" in lines
    assert "├── clerk (flight)    completed  2.00 s of ~5 s" in lines
    assert "│     Do flight" in lines
    assert "└── clerk (hotel)     completed  attempt 1  2.00 s" in lines


def test_a_check_of_a_plan_is_named_and_its_reason_told() -> None:
    check = created("r.4", "planner")
    check.task_state.align = True
    view = view_of([*replanned_run()[:5], check])
    assert view.tasks["r.4"].label == "planner (check of plan 1)"
    strays = planned(2, "hostel", reason="the plan no longer serves the query: it strays")
    text = run_event_text(view, strays)
    assert text == "plan 2 made, replaces plan 1, because the plan no longer serves the query: it strays: 1 step"
