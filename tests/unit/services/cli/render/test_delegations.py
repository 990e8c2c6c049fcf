"""Delegations in every view: below the delegating task, with notes about exceptions."""

from __future__ import annotations

from io import StringIO

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.types import RunEvent
from archon_services.cli.render.run_report import run_report
from archon_services.cli.render.run_screen import TreeScreen
from archon_services.cli.render.run_summary import print_summary
from archon_services.cli.render.run_text import budget_text, task_notes, task_text, waiting_text
from archon_services.cli.render.task_tree import in_order
from tests.unit.services.cli.render.run_events import (
    COMPLETED,
    WORKING,
    created,
    delegated,
    dispatched,
    event,
    lines_of,
    numbered,
    opening,
    rejected,
    result,
    view_of,
)

TWO = [
    *(delegated("t1", "cook", "t2"), created("t2", "cook", "t1"), dispatched("t2", "cook")),
    *(delegated("t1", "waiter", "t3", "d2"), created("t3", "waiter", "t1")),
]


def test_delegated_tasks_follow_their_parent_in_order() -> None:
    nested = [delegated("t2", "butcher", "t4"), created("t4", "butcher", "t2")]
    view = view_of(*TWO, *nested)
    assert [(depth, task.role) for depth, task in in_order(view.tasks.values())] == [
        *((0, "lead"), (1, "cook"), (2, "butcher"), (1, "waiter"))
    ]


def test_task_waits_for_its_delegations_until_they_end() -> None:
    view = view_of(*TWO)
    lead = view.tasks["t1"]
    assert waiting_text(view, lead) == "waiting for cook and waiter"
    assert waiting_text(view, view.tasks["t3"]) == "waiting for an instance of waiter", "no waiting for edges"
    view.apply(RunEvent(result("t2", "cook")))
    assert task_text(view, lead) == "waiting for waiter  on lead-x"
    view.apply(RunEvent(result("t3", "waiter", common_pb2.TASK_STATE_FAILED)))
    assert task_text(view, lead) == "working  on lead-x"


def test_new_attempt_waits_for_its_own_delegations() -> None:
    view = view_of(*TWO, dispatched("t1", "lead", 2))
    assert waiting_text(view, view.tasks["t1"]) == ""
    view.apply(RunEvent(delegated("t1", "cook", "t2", attempt=2)))
    assert waiting_text(view, view.tasks["t1"]) == "waiting for cook"
    assert [*task_notes(view.tasks["t1"])] == ["delegates to cook again: reuses the existing task"]


def test_lines_indent_delegated_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(capsys, *TWO[:3]) == [
        "lead           delegates to cook: Do what a cook does.",
        "  cook         waiting for an instance of cook",
        "  cook         working  on cook-x",
    ]


def test_rejected_delegation_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    text = "delegation to lead rejected: lead -> lead is a loop"
    rejection = rejected("t1", "lead", "lead -> lead is a loop")
    assert lines_of(capsys, rejection) == [f"lead           {text}"]
    view = view_of(rejection)
    assert [*task_notes(view.tasks["t1"])] == [text]
    assert waiting_text(view, view.tasks["t1"]) == ""


@pytest.mark.parametrize("task_first", [True, False])
def test_repeated_delegation_reuses_the_task_in_any_order(capsys: pytest.CaptureFixture[str], task_first: bool) -> None:
    first = [delegated("t1", "cook", "t2"), created("t2", "cook", "t1")]
    lines = lines_of(capsys, *(first[::-1] if task_first else first), delegated("t1", "cook", "t2", "d2"))
    assert [line for line in lines if "delegates" in line] == [
        "lead           delegates to cook: Do what a cook does.",
        "lead           delegates to cook again: reuses the existing task",
    ]


def test_cancelled_delegation_stops_its_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopping = run_pb2.TaskStateChanged(role="cook", state=WORKING, stopping=True)
    stopping.failure.message = "its delegation was cancelled"
    events = [
        *TWO[:3],
        event("t1", delegation_cancelled=run_pb2.DelegationCancelled(delegation_id="d1")),
        event("t2", task_state=stopping),
    ]
    assert lines_of(capsys, *events)[-2:] == [
        "lead           delegation to cook cancelled",
        "  cook         stopping: its delegation was cancelled",
    ]
    view = view_of(*events)
    assert (view.tasks["t2"].state, waiting_text(view, view.tasks["t1"])) == ("working", "")
    assert [*task_notes(view.tasks["t2"])] == ["stopping: its delegation was cancelled"]
    view.apply(RunEvent(result("t2", "cook", common_pb2.TASK_STATE_CANCELED)))
    assert [*task_notes(view.tasks["t2"])] == []


def test_budget_reservations_and_denials_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    more = run_pb2.BudgetReserved(budget=common_pb2.Budget(max_tokens=2000, max_cost_micro_usd=50_000))
    events = [event("t1", budget_reserved=more), event("t1", budget_reserved=run_pb2.BudgetReserved())]
    assert lines_of(capsys, *events) == [
        "lead           reserved another 2,000 tokens and $0.05 of the budget",
        "lead           budget request denied: not enough left",
    ]
    assert [*task_notes(view_of(*events).tasks["t1"])] == ["budget request denied: not enough left"]
    assert budget_text(common_pb2.Budget(max_cost_micro_usd=3_000_000)) == "$3"
    assert budget_text(common_pb2.Budget(max_cost_micro_usd=10_000_000)) == "$10"


def test_tree_nests_delegations_and_shows_notes() -> None:
    from rich.console import Console

    written = StringIO()
    screen, out = TreeScreen(), Console(width=90, file=written)
    for shown in [*opening(), *numbered(*TWO), rejected("t1", "lead", "a loop")]:
        screen._view.apply(RunEvent(shown))
    out.print(screen._tree())
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    assert lines[1:] == [
        "└── ● lead           waiting for cook and waiter  on lead-x",
        "    ├── delegation to lead rejected: a loop",
        "    ├── ● cook           working  on cook-x",
        "    └── ○ waiter         waiting for an instance of waiter",
    ]


def current_run() -> run_pb2.Run:
    run = run_pb2.Run(run_id="r", state=WORKING, strategy=run_pb2.STRATEGY_AGENT)
    run.edges.add(upstream="cook", downstream="waiter")
    run.tasks.add(task_id="t1", role="lead", state=WORKING, instance_id="lead-x", attempt=1)
    run.tasks.add(task_id="t2", role="cook", state=COMPLETED, parent_task_id="t1", attempt=1, memory_version=3)
    run.tasks.add(task_id="t4", role="butcher", state=COMPLETED, parent_task_id="t2", attempt=1)
    run.tasks.add(task_id="t3", role="waiter", state=WORKING, parent_task_id="t1", waiting_for="an instance")
    return run


def test_report_nests_delegations_and_has_the_strategy() -> None:
    view = view_of(*TWO, result("t2", "cook"), rejected("t1", "lead", "a loop"))
    texts = [text for text, _ in run_report(current_run(), 200.0, view)]
    assert "  strategy    agent" in texts
    assert texts[-5:] == [
        "└── lead             working  waiting for waiter  on lead-x  attempt 1",
        "    │ delegation to lead rejected: a loop",
        "    ├── cook         completed  attempt 1  memory v3",
        "    │   └── butcher  completed  attempt 1",
        "    └── waiter       working  waiting for an instance",
    ]


def test_report_works_without_events() -> None:
    texts = [text for text, _ in run_report(current_run(), 200.0)]
    assert [text.split()[1] if "─" in text.split()[0] else text.split()[2] for text in texts[-4:]] == [
        *("lead", "cook", "butcher", "waiter")
    ]


def test_summary_has_no_version_if_a_role_completed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    run = current_run()
    run.tasks.add(task_id="t5", role="butcher", state=COMPLETED, parent_task_id="t1", attempt=1)
    print_summary(run, {"cook": 3, "butcher": 2})
    rows = [line for line in capsys.readouterr().out.splitlines() if "completed" in line or "working" in line][:5]
    assert [row[: row.index("  ", 4)].rstrip() for row in rows] == [
        *("lead", "  cook", "    butcher", "  waiter", "  butcher")
    ]
    assert [row.split()[4] for row in rows] == ["-", "v3", "-", "-", "-"]
