"""The critical path of a run, and the sums of its times."""

from __future__ import annotations

import pytest

from archon_services.reports.waterfall.spans import TimeKind, Waterfall
from archon_services.reports.waterfall.totals import segments, totals
from tests.unit.services.reports.waterfall.journals import (
    CANCELED,
    FAILED,
    START,
    Journal,
    delegation,
    path,
    pipeline,
)


def assert_gapless(drawn: Waterfall) -> None:
    """Holds that the steps cover the run from start to end."""
    edges = [drawn.root.start, *(step.end for step in drawn.path)]
    assert [step.start for step in drawn.path] == pytest.approx(edges[:-1])
    assert edges[-1] == pytest.approx(drawn.root.end)


def test_path_goes_through_the_predecessor_that_ended_last() -> None:
    drawn = pipeline().waterfall()
    assert path(drawn) == [
        ("baker", "queue", 0, 1),
        ("offline", "model", 1, 5.5),
        ("baker", "agent", 5.5, 6),
        ("offline", "model", 6, 9),
        ("bell", "tool", 9, 9.5),
        ("waiter", "agent", 9.5, 10),
    ]
    assert_gapless(drawn)


def test_path_goes_through_a_delegated_task() -> None:
    drawn = delegation().waterfall()
    assert path(drawn) == [
        ("offline", "model", 0, 2),
        ("cook", "queue", 2, 3),
        ("offline", "model", 3, 7),
        ("cook", "agent", 7, 8),
        ("offline", "model", 8, 9),
        ("lead", "agent", 9, 10),
    ]
    assert_gapless(drawn)


def test_path_takes_the_slower_of_parallel_delegations() -> None:
    journal = Journal("lead")
    journal.dispatched(0, "lead")
    for role in ("cook", "baker"):
        journal.delegated(1, "lead", role)
        journal.dispatched(1, role)
    journal.result(3, "baker")
    journal.result(6, "cook")
    journal.result(7, "lead")
    journal.ended(7)
    drawn = journal.waterfall()
    assert path(drawn) == [("lead", "agent", 0, 1), ("cook", "agent", 1, 6), ("lead", "agent", 6, 7)]
    assert_gapless(drawn)


def test_path_goes_through_earlier_attempts_and_their_waits() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.lost(2, "cook")
    journal.dispatched(3, "cook", 2)
    journal.asked(4, "cook", 2)
    journal.answered(9, "cook", 2)
    journal.dispatched(9, "cook", 3)
    journal.result(10, "cook", 3)
    journal.ended(10)
    drawn = journal.waterfall()
    kinds = [(kind, start, end) for _, kind, start, end in path(drawn)]
    assert kinds == [("agent", 0, 2), ("queue", 2, 3), ("agent", 3, 4), ("waiting", 4, 9), ("agent", 9, 10)]
    assert_gapless(drawn)


def test_path_enters_a_reused_task_where_the_second_attempt_asked() -> None:
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
    drawn = journal.waterfall()
    assert [(name, start, end) for name, _, start, end in path(drawn)][-3:] == [
        ("lead", 3, 4),
        ("cook", 4, 6),
        ("lead", 6, 7),
    ]
    assert_gapless(drawn)


def test_path_ends_in_the_task_that_failed_not_in_the_cancelled() -> None:
    journal = Journal("baker", "cook", "waiter", edges=[("cook", "waiter"), ("baker", "waiter")])
    journal.dispatched(0, "baker")
    journal.dispatched(1, "cook")
    journal.result(5, "cook", state=FAILED)
    journal.result(5, "baker", state=CANCELED)
    journal.ended(5, FAILED)
    assert path(journal.waterfall()) == [("cook", "queue", 0, 1), ("cook", "agent", 1, 5)]


def test_path_of_a_running_run_ends_in_what_is_in_progress() -> None:
    journal = Journal("cook", "baker", "waiter", edges=[("cook", "waiter"), ("baker", "waiter")])
    journal.dispatched(0, "cook")
    journal.dispatched(0, "baker")
    journal.result(2, "cook")
    drawn = journal.waterfall(6)
    assert path(drawn) == [("baker", "agent", 0, 6)]
    assert_gapless(drawn)


@pytest.mark.parametrize("now", [0.0, 3.0])
def test_run_without_attempts_has_a_path(now: float) -> None:
    drawn = Journal("cook").waterfall(now)
    assert path(drawn) == ([("cook", "queue", 0, 3)] if now else [])
    assert sum(total.share for total in totals(drawn)) == (1.0 if now else 0.0)


def test_shares_add_up_and_sums_count_every_task() -> None:
    drawn = pipeline().waterfall()
    by_kind = {total.kind: total for total in totals(drawn)}
    assert sum(total.share for total in by_kind.values()) == pytest.approx(1.0)
    assert (by_kind[TimeKind.MODEL].critical, by_kind[TimeKind.MODEL].summed) == pytest.approx((7.5, 10.0))
    assert (by_kind[TimeKind.WAITING].critical, by_kind[TimeKind.WAITING].summed) == pytest.approx((0.0, 6.0))
    assert by_kind[TimeKind.QUEUE].share == pytest.approx(0.1)


def test_overlapping_calls_of_an_attempt_are_not_counted_twice() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", 1, 5, kind="tool", target="a")
    journal.call("cook", 2, 6, kind="tool", target="b")
    journal.call("cook", 3, 4)
    journal.result(8, "cook")
    journal.ended(8)
    (cook,) = journal.waterfall().root.children
    assert [(start - START, end - START, kind) for start, end, kind in segments(cook)] == [
        (0, 1, TimeKind.AGENT),
        (1, 3, TimeKind.TOOL),
        (3, 4, TimeKind.MODEL),
        (4, 6, TimeKind.TOOL),
        (6, 8, TimeKind.AGENT),
    ]
