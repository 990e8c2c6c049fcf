"""The factor by which a record makes the load of an instance count less or more."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from archon_services.orchestrator.track_records.factor import (
    LEAST_FACTOR,
    MOST_FACTOR,
    best_role,
    factor_of,
    vote_weight,
)
from archon_services.orchestrator.track_records.records import Subject, TrackRecords
from archon_services.orchestrator.track_records.tally import Tally


def tally(completed: float, failed: float = 0, seconds: float = 1.0) -> Tally:
    return Tally(1e9, completed=completed, failed=failed, seconds=completed * seconds)


amounts = st.floats(0, 1e5)
tallies = st.builds(tally, amounts, amounts, st.floats(0.001, 1e4))


@given(tallies, tallies)
def test_the_factor_is_within_its_bounds(instance: Tally, role: Tally) -> None:
    assert LEAST_FACTOR <= factor_of(instance, role) <= MOST_FACTOR


def test_without_a_record_the_factor_is_neutral() -> None:
    assert factor_of(None, tally(100)) == factor_of(tally(3), None) == factor_of(Tally(), tally(100)) == 1.0


@given(st.floats(1, 1e4), st.floats(0, 1e4), st.floats(0.01, 1e3), st.integers(1, 50))
@example(1, 7, 1.0, 1)
@example(1, 1e4, 1.0, 1)
def test_an_instance_that_is_like_its_role_is_neutral(done: float, failed: float, seconds: float, number: int) -> None:
    role = tally(done * number, failed * number, seconds)
    assert 0.84 < factor_of(tally(done, failed, seconds), role) < 1.2


def test_a_new_instance_is_neutral_after_one_failure() -> None:
    role = tally(1000, 10)
    assert 1.0 <= factor_of(tally(0, 1), role) < 1.3
    assert factor_of(tally(0, 50), role) == MOST_FACTOR


def test_a_quick_instance_has_less_and_a_slow_one_more_than_one() -> None:
    role = tally(1000, 0, 1.0)
    assert factor_of(tally(200, 0, 0.1), role) == LEAST_FACTOR
    assert factor_of(tally(200, 0, 10.0), role) == MOST_FACTOR


def test_small_differences_do_not_count() -> None:
    role = tally(1000, 0, 1.0)
    assert factor_of(tally(200, 0, 1.05), role) == factor_of(tally(200, 0, 0.95), role) == 1.0


@given(tallies)
def test_a_vote_has_a_weight_from_0_to_2(instance: Tally) -> None:
    assert 0 <= vote_weight(instance) <= 2


def test_conflicts_won_and_success_give_a_vote_its_weight() -> None:
    assert vote_weight(None) == vote_weight(Tally()) == vote_weight(tally(100)) == 1.0
    assert vote_weight(Tally(conflicts=20, conflicts_won=20)) > 1.7
    assert vote_weight(Tally(conflicts=20)) < 0.3
    assert vote_weight(tally(10, 30)) < 0.4


def test_a_role_with_a_better_record_is_chosen_and_equal_ones_by_name() -> None:
    records = TrackRecords(lambda: 1e9)
    assert best_role(records, "default", ["b", "a", "c"]) == "a"
    for _ in range(20):
        records._add(Subject("default", "a"), tally(1, 2, 4.0))
        records._add(Subject("default", "b"), tally(1, 0, 1.0))
    assert best_role(records, "default", ["a", "b"]) == "b"
    assert best_role(records, "default", ["a", "c"]) == "a", "its record is all that is known"
    assert best_role(records, "other", ["b", "a"]) == "a"
