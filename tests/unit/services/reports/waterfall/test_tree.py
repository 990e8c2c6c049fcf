"""The spans that are derived from the events and records of a run."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import Usage
from archon_services.reports.waterfall.spans import Span, SpanKind
from archon_services.reports.waterfall.tree import IN_PROGRESS
from tests.unit.services.reports.waterfall.journals import (
    CANCELED,
    COMPLETED,
    FAILED,
    START,
    Journal,
    committee,
    delegation,
    pipeline,
    shape,
)


def attempts(journal: Journal, now: float = 0.0) -> list[Span]:
    root = journal.waterfall(now).root
    return [span for _, span in root.walk() if span.kind is SpanKind.ATTEMPT]


def idle(journal: Journal, now: float = 0.0) -> list[tuple[str, str, float, float]]:
    """Returns kind, reason, start and end of what is not an attempt, at the top."""
    spans = [span for span in journal.waterfall(now).root.children if span.kind is not SpanKind.ATTEMPT]
    return [(span.kind.value, span.detail, round(span.start - START, 3), round(span.end - START, 3)) for span in spans]


def test_pipeline_tasks_wait_for_predecessors_then_run() -> None:
    assert shape(pipeline().waterfall().root.children) == [
        ("attempt", "cook", 0.0, 4.0, [("model", "offline", 0.5, 3.0)]),
        ("queue", "baker", 0.0, 1.0),
        ("attempt", "baker", 1.0, 6.0, [("model", "offline", 1.0, 5.5)]),
        ("waiting", "waiter", 0.0, 6.0),
        ("attempt", "waiter", 6.0, 10.0, [("model", "offline", 6.0, 9.0), ("tool", "bell", 9.0, 9.5)]),
    ]
    assert ("waiting", "for cook and baker", 0.0, 6.0) in idle(pipeline())


def test_delegated_task_is_below_its_delegation() -> None:
    assert shape(delegation().waterfall().root.children) == [
        (
            *("attempt", "lead", 0.0, 10.0),
            [
                ("model", "offline", 0.0, 2.0),
                (
                    *("delegation", "cook", 2.0, 8.0),
                    [("queue", "cook", 2.0, 3.0), ("attempt", "cook", 3.0, 8.0, [("model", "offline", 3.0, 7.0)])],
                ),
                ("model", "offline", 8.0, 9.0),
            ],
        )
    ]


def test_retry_queues_for_its_time_and_then_for_an_instance() -> None:
    journal = Journal("cook")
    journal.dispatched(1, "cook")
    journal.retry(2, "cook", 1, not_before=5)
    journal.dispatched(6, "cook", 2)
    journal.result(7, "cook", 2)
    journal.ended(7)
    assert [(span.status, span.detail, span.spent.input_tokens) for span in attempts(journal)] == [
        ("retried", "busy", 5),
        ("completed", "", 0),
    ]
    assert idle(journal) == [
        ("queue", "for an instance", 0, 1),
        ("queue", "for the time of its retry", 2, 5),
        ("queue", "for an instance", 5, 6),
    ]


def test_lost_rejected_and_returned_attempts_are_shown() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.lost(1, "cook")
    journal.dispatched(2, "cook", 2)
    journal.rejected(3, "cook", 2)
    journal.dispatched(3, "cook", 3)
    journal.rejected(4, "cook", 3, given_back=True)
    journal.dispatched(5, "cook", 4)
    journal.result(6, "cook", 4, FAILED, "burnt")
    journal.ended(6, FAILED, "cook failed: burnt")
    drawn = journal.waterfall()
    assert [(span.attempt, span.status, span.detail, span.instance) for span in attempts(journal)] == [
        (1, "lost", "its session ended", "cook-i1"),
        (2, "rejected", "not this instance", "cook-i2"),
        (3, "given back", "not this instance", "cook-i3"),
        (4, "failed", "burnt", "cook-i4"),
    ]
    assert (drawn.root.status, drawn.root.detail) == ("failed", "cook failed: burnt")


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        ("orchestrator-2", "taken over by orchestrator-2 (epoch 2)"),
        ("orchestrator-1", "claimed again by orchestrator-1"),
    ],
)
def test_takeover_is_a_mark_and_the_attempt_continues(owner: str, text: str) -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.claimed(2, owner)
    journal.result(3, "cook")
    journal.ended(3)
    drawn = journal.waterfall()
    assert [(mark.time - START, text in mark.text) for mark in drawn.marks] == [(2, True)]
    assert shape(drawn.root.children) == [("attempt", "cook", 0.0, 3.0)]


def test_question_that_ends_an_attempt_is_waiting_time() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.asked(2, "cook")
    journal.answered(7, "cook")
    journal.dispatched(8, "cook", 2)
    journal.result(9, "cook", 2)
    journal.ended(9)
    assert [span.status for span in attempts(journal)] == ["asked", "completed"]
    assert idle(journal) == [("waiting", "for a person", 2, 7), ("queue", "for an instance", 7, 8)]


def test_question_of_a_continuing_attempt_is_inside_it() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.asked(2, "cook", sequence=3)
    journal.answered(7, "cook")
    journal.result(9, "cook")
    journal.ended(9)
    assert shape(journal.waterfall().root.children) == [
        ("attempt", "cook", 0.0, 9.0, [("question", "question", 2.0, 7.0)])
    ]


def test_question_that_outlives_its_attempt_is_waiting_time() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.asked(1, "cook", sequence=3)
    assert journal.waterfall(1).root.status == "input required"
    journal.lost(2, "cook")
    journal.answered(5, "cook")
    journal.dispatched(6, "cook", 2)
    journal.result(7, "cook", 2)
    journal.ended(7)
    assert shape(journal.waterfall().root.children)[0] == (
        "attempt",
        "cook",
        0.0,
        2.0,
        [("question", "question", 1.0, 2.0)],
    )
    assert idle(journal) == [("waiting", "for a person", 2, 5), ("queue", "for an instance", 5, 6)]


def test_synthesis_waits_for_the_steps_that_it_names() -> None:
    journal = Journal(strategy=run_pb2.STRATEGY_PLAN)
    for task_id, step_id, predecessors in (("t1", "a", ()), ("t2", "b", ()), ("t3", "", ("t1", "t2"))):
        role, state = "clerk" if step_id else "planner", common_pb2.TASK_STATE_SUBMITTED
        new = run_pb2.TaskStateChanged(role=role, state=state, step_id=step_id, predecessors=predecessors)
        journal.add(0, task_id, task_state=new)
    assert idle(journal, 2)[-1] == ("waiting", "for clerk (a) and clerk (b)", 0, 2)


def test_pause_is_waiting_time_of_tasks_that_are_ready() -> None:
    journal = Journal("cook", "waiter", edges=[("cook", "waiter")])
    journal.dispatched(0, "cook")
    journal.paused(1)
    journal.result(4, "cook")
    journal.resumed(6)
    journal.dispatched(7, "waiter")
    journal.result(8, "waiter")
    journal.ended(8)
    assert idle(journal) == [
        ("waiting", "for cook", 0, 4),
        ("waiting", "for the run to be resumed", 4, 6),
        ("queue", "for an instance", 6, 7),
    ]
    assert [mark.text for mark in journal.waterfall().marks] == ["paused", "resumed"]


def test_cancelled_run_ends_its_attempts_and_questions() -> None:
    journal = Journal("cook", "waiter", edges=[("cook", "waiter")])
    journal.dispatched(0, "cook")
    journal.asked(1, "cook", sequence=2)
    journal.add(3, cancel_requested=run_pb2.CancelRequested(reason="too late"))
    journal.ended(4, CANCELED)
    drawn = journal.waterfall(99)
    assert shape(drawn.root.children) == [
        ("attempt", "cook", 0.0, 4.0, [("question", "question", 1.0, 4.0)]),
        ("waiting", "waiter", 0.0, 4.0),
    ]
    assert drawn.root.children[0].status == "canceled"
    assert [mark.text for mark in drawn.marks] == ["cancellation requested: too late"]


def test_running_run_ends_now_and_says_so() -> None:
    journal = Journal("cook", "waiter", edges=[("cook", "waiter")])
    journal.dispatched(1, "cook")
    drawn = journal.waterfall(5)
    assert shape(drawn.root.children) == [
        ("queue", "cook", 0.0, 1.0),
        ("attempt", "cook", 1.0, 5.0),
        ("waiting", "waiter", 0.0, 5.0),
    ]
    assert (drawn.root.status, drawn.root.seconds, drawn.notes) == ("working", 5.0, [IN_PROGRESS])


@pytest.mark.parametrize(("pause", "state"), [(True, "paused"), (False, "input required")])
def test_running_run_names_what_holds_it(pause: bool, state: str) -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.asked(1, "cook")
    if pause:
        journal.paused(2)
    assert journal.waterfall(3).root.status == state


def test_run_that_was_only_submitted_has_a_queue() -> None:
    drawn = Journal("cook").waterfall(2)
    assert (drawn.root.status, shape(drawn.root.children)) == ("submitted", [("queue", "cook", 0.0, 2.0)])


def test_refused_and_cancelled_delegations_say_so() -> None:
    journal = Journal("lead")
    journal.dispatched(0, "lead")
    journal.refused(1, "lead", "gardener", "no such role")
    journal.delegated(2, "lead", "cook")
    journal.add(3, "lead", 1, delegation_cancelled=run_pb2.DelegationCancelled(delegation_id="cook.1"))
    journal.add(4, "cook", 0, task_state=run_pb2.TaskStateChanged(role="cook", state=CANCELED))
    journal.result(5, "lead")
    journal.ended(5)
    first, second = journal.waterfall().root.children[0].children
    assert (first.status, first.detail, first.seconds) == ("refused", "no such role", 0.0)
    assert (second.status, second.seconds) == ("cancelled", 1.0)
    assert [span.kind for span in second.children] == [SpanKind.QUEUE]


def test_repeated_delegation_reuses_the_task_of_the_first() -> None:
    journal = Journal("lead")
    journal.dispatched(0, "lead")
    journal.delegated(1, "lead", "cook")
    journal.dispatched(1, "cook")
    journal.lost(2, "lead")
    journal.dispatched(3, "lead", 2)
    journal.delegated(4, "lead", "cook", 2, create=False)
    journal.result(6, "cook")
    journal.result(7, "lead", 2)
    journal.ended(7)
    lost, _, second = journal.waterfall().root.children
    assert shape(lost.children) == [("delegation", "cook", 1.0, 2.0, [("attempt", "cook", 1.0, 6.0)])]
    assert shape(second.children) == [("delegation", "cook", 4.0, 6.0)]
    assert second.children[0].detail == "reuses the task of an earlier delegation"


def test_calls_of_a_skewed_clock_are_moved_into_their_attempt() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", 101, 102)
    journal.call("cook", 102, 103, kind="tool")
    journal.result(4, "cook", model_calls=1)
    journal.ended(4)
    drawn = journal.waterfall()
    assert [(span[2], span[3]) for span in shape(drawn.root.children[0].children)] == [(2.0, 3.0), (3.0, 4.0)]
    assert drawn.notes == ["the calls of cook-i1 are moved by -99.000 s: its clock differs from the orchestrator's"]


def test_calls_longer_than_their_attempt_are_cut() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", -1, 9)
    journal.result(4, "cook")
    journal.ended(4)
    assert shape(journal.waterfall().root.children[0].children) == [("model", "offline", 0.0, 4.0)]


def test_model_calls_without_records_are_counted_in_a_note() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", 0, 1)
    journal.result(4, "cook", model_calls=3)
    journal.ended(4)
    assert journal.waterfall().notes == ["not recorded: 2 model calls of cook; the time counts as the agent's own work"]


def test_failed_calls_say_why() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", 0, 1, response={"error": {"code": "UNAVAILABLE", "reason": "OVERLOADED"}})
    journal.call("cook", 1, 2, kind="tool", response={"status": "timeout", "content": "x"})
    journal.call("cook", 2, 3, kind="tool", response={"status": "success"})
    journal.call("cook", 3, 4, response=["an unknown form"])
    journal.result(4, "cook")
    journal.ended(4)
    (cook,) = attempts(journal)
    assert [(span.status, span.detail) for span in cook.children] == [
        ("failed", "OVERLOADED"),
        ("failed", "timeout"),
        ("completed", ""),
        ("completed", ""),
    ]


def test_usage_of_an_attempt_without_a_result_is_that_of_its_calls() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", 0, 1, input_tokens=7, cost_micro_usd=2)
    journal.call("cook", 1, 2, input_tokens=3, estimated=True)
    journal.asked(3, "cook")
    root = journal.waterfall(4).root
    assert root.spent == attempts(journal, 4)[0].spent == Usage(10, cost_micro_usd=2, estimated=True)


def test_stopping_discarded_results_and_budgets_are_details() -> None:
    journal = Journal("cook", "baker", "brewer")
    for role in ("cook", "baker", "brewer"):
        journal.dispatched(0, role)
    stopping = run_pb2.TaskStateChanged(role="cook", state=common_pb2.TASK_STATE_WORKING, stopping=True)
    journal.add(1, "cook", 1, task_state=stopping)
    journal.add(1, "baker", 1, budget_reserved=run_pb2.BudgetReserved())
    journal.add(1, "brewer", 1, discarded=run_pb2.DiscardedResult())
    journal.ended(2, CANCELED)
    assert [span.detail for span in attempts(journal)] == [
        "stopping: no longer needed",
        "budget request denied: not enough left",
        "its result came too late and was discarded",
    ]


def test_reused_task_of_a_fork_takes_no_time() -> None:
    journal = Journal("cook", "waiter", edges=[("cook", "waiter")])
    journal.result(0, "cook", 0, COMPLETED)
    journal.dispatched(1, "waiter")
    journal.result(2, "waiter")
    journal.ended(2)
    cook, queue, waiter = journal.waterfall().root.children
    assert (cook.status, cook.seconds, waiter.status) == ("reused", 0.0, "completed")
    assert (queue.kind, queue.detail, queue.seconds) == (SpanKind.QUEUE, "for an instance", 1.0)


def test_events_without_a_time_of_their_own_change_nothing() -> None:
    journal = pipeline()
    before = shape(journal.waterfall().root.children)
    journal.events[5:5] = [
        run_pb2.RunEvent(run_id="run-1", text_delta=run_pb2.TextDelta(role="cook", text="x")),
        run_pb2.RunEvent(run_id="run-1", tool_event=run_pb2.ToolActivity(role="cook", tool_name="oven")),
        run_pb2.RunEvent(run_id="run-1", seq=6),
    ]
    for payload in (
        {"published": run_pb2.PublishedToMemory(role="cook")},
        {"item_published": run_pb2.ItemPublished(role="cook")},
        {"checkpoint": run_pb2.CheckpointTaken(size=3)},
        {"recorded": run_pb2.Recorded(count=1)},
        {"budget_reserved": run_pb2.BudgetReserved(budget=common_pb2.Budget(max_tokens=3))},
        {"task_state": run_pb2.TaskStateChanged(role="cook", state=common_pb2.TASK_STATE_WORKING)},
    ):
        journal.add(3, "cook", 1, **payload)
        journal.events.insert(6, journal.events.pop())
    assert shape(journal.waterfall().root.children) == before


def test_a_decision_by_rule_waits_for_its_choices_and_has_no_attempt() -> None:
    assert shape(committee().waterfall().root.children)[2:] == [
        ("waiting", "pick", 0.0, 8.0),
        ("decision", "pick", 8.0, 8.0),
    ]
    drawn = committee().waterfall()
    assert drawn.root.children[-1].detail == (
        "the answer of pick-baker has 9 of 10; in conflict: pick-cook says something else"
    )
    assert [step.span.name for step in drawn.path] == ["baker (pick-baker)"], "the choice itself takes no time"
