"""Delegations on every screen: below the task that delegated, with what isn't as usual about them."""

from __future__ import annotations

from io import StringIO

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.run_screen import LineScreen, TreeScreen
from archon_services.cli.render.run_words import budget_words, remarks, task_words
from archon_services.cli.render.show_view import run_lines
from archon_services.cli.render.summary import print_summary
from archon_services.cli.render.task_tree import in_order
from tests.unit.services.cli.delegated_run import (
    COMPLETED,
    WORKING,
    delegated,
    dispatched,
    event,
    made,
    opening,
    refused,
    result,
    view_of,
)

TWO = [
    *(delegated("t1", "cook", "t2"), made("t2", "cook", "t1"), dispatched("t2", "cook")),
    *(delegated("t1", "waiter", "t3", "d2"), made("t3", "waiter", "t1")),
]


def lines_of(capsys: pytest.CaptureFixture[str], *events: run_pb2.RunEvent) -> list[str]:
    """What a line screen says of these events after the opening, without the time."""
    screen = LineScreen()
    for one in opening():
        screen.event(one)
    capsys.readouterr()
    for one in events:
        screen.event(one)
    return [line.partition(" s  ")[2] for line in capsys.readouterr().err.splitlines()]


def test_delegated_tasks_lie_below_the_one_that_delegated_in_the_order_of_delegation() -> None:
    nested = [delegated("t2", "butcher", "t4"), made("t4", "butcher", "t2")]
    view = view_of(*TWO, *nested)
    assert [(depth, task.role) for depth, task in in_order(view.tasks.values())] == [
        *((0, "lead"), (1, "cook"), (2, "butcher"), (1, "waiter"))
    ]


def test_a_task_waits_for_those_that_it_delegated_to_until_they_have_ended() -> None:
    view = view_of(*TWO)
    lead = view.tasks["t1"]
    assert view.waits_for(lead) == "waits for cook and waiter"
    assert view.waits_for(view.tasks["t3"]) == "waits for an instance of waiter", "an edge holds nothing back here"
    view.apply(result("t2", "cook"))
    assert task_words(view, lead) == "waits for waiter  on lead-x"
    view.apply(result("t3", "waiter", common_pb2.TASK_STATE_FAILED))
    assert task_words(view, lead) == "working  on lead-x"


def test_an_attempt_that_begins_again_waits_for_what_it_asks_for_itself() -> None:
    view = view_of(*TWO, dispatched("t1", "lead", 2))
    assert view.waits_for(view.tasks["t1"]) == ""
    view.apply(delegated("t1", "cook", "t2", attempt=2))
    assert view.waits_for(view.tasks["t1"]) == "waits for cook"
    assert [*remarks(view.tasks["t1"])] == ["cook had been asked this before: remembered"]


def test_a_delegation_is_told_with_what_is_asked_and_its_task_further_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lines_of(capsys, *TWO[:3]) == [
        "lead           delegates to cook: Do what a cook does.",
        "  cook         waits for an instance of cook",
        "  cook         working  on cook-x",
    ]


def test_a_refused_delegation_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    no = refused("t1", "lead", "lead -> lead is a loop")
    assert lines_of(capsys, no) == ["lead           may not delegate to lead: lead -> lead is a loop"]
    view = view_of(no)
    assert [*remarks(view.tasks["t1"])] == ["lead was refused: lead -> lead is a loop"]
    assert view.waits_for(view.tasks["t1"]) == ""


@pytest.mark.parametrize("task_first", [True, False])
def test_what_was_asked_before_is_remembered_whichever_event_comes_first(
    capsys: pytest.CaptureFixture[str], task_first: bool
) -> None:
    first = [delegated("t1", "cook", "t2"), made("t2", "cook", "t1")]
    lines = lines_of(capsys, *(first[::-1] if task_first else first), delegated("t1", "cook", "t2", "d2"))
    told = [line for line in lines if "delegates" in line]
    assert told == [
        "lead           delegates to cook: Do what a cook does.",
        "lead           delegates to cook what it had been asked before: remembered",
    ]


def test_a_delegation_that_is_not_needed_any_more_and_the_task_that_is_stopped_for_it(
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
        "lead           needs cook no more",
        "  cook         is being stopped: its delegation was cancelled",
    ]
    view = view_of(*events)
    assert (view.tasks["t2"].state, view.waits_for(view.tasks["t1"])) == ("working", "")
    assert [*remarks(view.tasks["t2"])] == ["is being stopped: its delegation was cancelled"]
    view.apply(result("t2", "cook", common_pb2.TASK_STATE_CANCELED))
    assert [*remarks(view.tasks["t2"])] == []


def test_more_budget_and_none_left_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    more = run_pb2.BudgetReserved(budget=common_pb2.Budget(max_tokens=2000, max_cost_micro_usd=50_000))
    events = [event("t1", budget_reserved=more), event("t1", budget_reserved=run_pb2.BudgetReserved())]
    assert lines_of(capsys, *events) == [
        "lead           gets 2,000 tokens and $0.05 more of the budget",
        "lead           wanted more of the budget than is left",
    ]
    assert [*remarks(view_of(*events).tasks["t1"])] == ["wanted more of the budget than is left"]
    assert budget_words(common_pb2.Budget(max_cost_micro_usd=3_000_000)) == "$3"
    assert budget_words(common_pb2.Budget(max_cost_micro_usd=10_000_000)) == "$10"


def test_the_live_tree_nests_them_and_shows_remarks_below_their_task() -> None:
    from rich.console import Console

    written = StringIO()
    screen, out = TreeScreen(), Console(width=90, file=written)
    for one in [*opening(), *TWO, refused("t1", "lead", "a loop")]:
        screen._view.apply(one)
    out.print(screen._tree())
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    assert lines[1:] == [
        "└── ● lead           waits for cook and waiter  on lead-x",
        "    ├── lead was refused: a loop",
        "    ├── ● cook           working  on cook-x",
        "    └── ○ waiter         waits for an instance of waiter",
    ]


def run_as_it_stands() -> run_pb2.Run:
    run = run_pb2.Run(run_id="r", state=WORKING, strategy=run_pb2.STRATEGY_AGENT)
    run.edges.add(upstream="cook", downstream="waiter")
    run.tasks.add(task_id="t1", role="lead", state=WORKING, instance_id="lead-x", attempt=1)
    run.tasks.add(task_id="t2", role="cook", state=COMPLETED, parent_task_id="t1", attempt=1, memory_version=3)
    run.tasks.add(task_id="t4", role="butcher", state=COMPLETED, parent_task_id="t2", attempt=1)
    run.tasks.add(task_id="t3", role="waiter", state=WORKING, parent_task_id="t1", waiting_for="an instance")
    return run


def test_show_nests_them_with_remarks_and_says_the_strategy() -> None:
    view = view_of(*TWO, result("t2", "cook"), refused("t1", "lead", "a loop"))
    texts = [text for text, _ in run_lines(run_as_it_stands(), 200.0, view)]
    assert "  strategy    agent" in texts
    assert texts[-5:] == [
        "└── lead             working  waits for waiter  on lead-x  attempt 1",
        "    │ lead was refused: a loop",
        "    ├── cook         completed  attempt 1  memory v3",
        "    │   └── butcher  completed  attempt 1",
        "    └── waiter       working  waits for an instance",
    ]


def test_show_needs_no_events() -> None:
    texts = [text for text, _ in run_lines(run_as_it_stands(), 200.0)]
    assert [text.split()[1] if "─" in text.split()[0] else text.split()[2] for text in texts[-4:]] == [
        *("lead", "cook", "butcher", "waiter")
    ]


def test_the_summary_moves_them_to_the_right_and_gives_no_task_the_version_of_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = run_as_it_stands()
    run.tasks.add(task_id="t5", role="butcher", state=COMPLETED, parent_task_id="t1", attempt=1)
    print_summary(run, {"cook": 3, "butcher": 2})
    rows = [line for line in capsys.readouterr().out.splitlines() if "completed" in line or "working" in line][:5]
    assert [row[: row.index("  ", 4)].rstrip() for row in rows] == [
        *("lead", "  cook", "    butcher", "  waiter", "  butcher")
    ]
    assert [row.split()[4] for row in rows] == ["-", "v3", "-", "-", "-"]
