"""Learned weights never leave their bounds, whatever the evidence; moves are bounded; revert restores exactly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from archon_services.orchestrator.learning import versions as ver
from archon_services.orchestrator.learning.choice import choices_of, choose_variant, last_tools
from archon_services.orchestrator.learning.versions import NOTHING, Origin, Version
from archon_services.orchestrator.learning.weights import (
    HALF_LIFE,
    LEAST,
    MAX_MOVE,
    MAX_SUBJECTS,
    MOST,
    NEUTRAL,
    Outcome,
    Subject,
    Tally,
    bounded,
    largest_change,
    moved,
    observed,
    targets,
)

subjects = st.builds(
    Subject, st.sampled_from(["role", "tool", "variant"]), st.sampled_from("ab"), st.sampled_from(["", "x", "y"])
)
numbers = st.floats(allow_nan=False, allow_infinity=True, width=32)
outcomes = st.lists(st.builds(Outcome, subjects, numbers, st.floats(-10, 1e6)), max_size=30)
steps = st.lists(st.tuples(outcomes, st.floats(-1e5, 1e7)), max_size=6)


def variant(name: str) -> Subject:
    return Subject("variant", "writer", name)


def rounds(count: int, good: str = "brief", bad: str = "default") -> list[Outcome]:
    return [Outcome(variant(name), score) for name, score in ((good, 1.0), (bad, 0.0)) for _ in range(count)]


@given(steps)
@settings(max_examples=60)
def test_weights_stay_within_bounds_whatever_happens(given: list[tuple[list[Outcome], float]]) -> None:
    evidence: dict[Subject, Tally] = {}
    weights: dict[Subject, float] = {}
    now = 0.0
    for batch, seconds in given:
        now += seconds
        evidence = observed(evidence, batch, now)
        assert all(0 <= tally.score <= tally.count + 1e-6 * tally.count for tally in evidence.values())
        before, weights = weights, moved(weights, evidence)
        assert all(LEAST <= weight <= MOST for weight in weights.values())
        assert largest_change(before, weights) <= MAX_MOVE + 1e-9
        assert all(bounded(weight) == weight != NEUTRAL for weight in weights.values())


@given(st.dictionaries(subjects, numbers | st.just(float("nan"))))
def test_any_stored_weight_is_brought_within_bounds(weights: dict[Subject, float]) -> None:
    assert all(LEAST <= weight <= MOST for weight in moved(weights, {}).values())


def test_a_subject_alone_in_its_group_stays_neutral() -> None:
    evidence = observed({}, [Outcome(variant("brief"), 0.0, 50.0)], 0.0)
    assert targets(evidence) == {variant("brief"): NEUTRAL}


def test_equal_scores_are_neutral_however_low() -> None:
    evidence = observed({}, [Outcome(variant(name), 0.0, 50.0) for name in ("brief", "default")], 0.0)
    assert moved({}, evidence) == {}


def test_the_better_variant_rises_and_the_other_falls() -> None:
    weights = moved({}, observed({}, rounds(20), 0.0))
    assert weights == {variant("brief"): 1.25, variant("default"): 0.75}


def test_old_outcomes_are_forgotten_and_weights_return() -> None:
    evidence = observed({}, rounds(20), 0.0)
    weights = moved({}, evidence)
    later = observed(evidence, [], 30 * HALF_LIFE)
    assert later == {}
    assert moved(weights, later) == {}


def test_a_clock_that_was_set_back_ages_nothing() -> None:
    evidence = observed({}, rounds(20), 1_000.0)
    assert observed(evidence, [], 0.0) == evidence


def test_evidence_is_bounded_and_the_least_is_dropped() -> None:
    many = [Outcome(Subject("tool", "writer", f"t{number}"), 1.0) for number in range(MAX_SUBJECTS + 5)]
    evidence = observed({}, [*many, Outcome(variant("brief"), 1.0, 2.0)], 0.0)
    assert len(evidence) == MAX_SUBJECTS
    assert variant("brief") in evidence


# Versions -------------------------------------------------------------------------------------------------------------


def history_of(given: list[tuple[list[Outcome], float]], approve_above: float = MOST) -> list[Version]:
    """Returns versions, newest first, that these outcomes make."""
    versions: list[Version] = []
    evidence: dict[Subject, Tally] = {}
    now = 0.0
    for batch, seconds in given:
        now += abs(seconds)
        evidence = observed(evidence, batch, now)
        if (version := ver.learned(versions, evidence, now, approve_above)) is not None:
            versions.insert(0, version)
    return versions


@given(steps, st.data())
@settings(max_examples=40)
def test_revert_restores_weights_and_evidence_exactly(
    given: list[tuple[list[Outcome], float]], data: st.DataObject
) -> None:
    versions = history_of(given)
    to = data.draw(st.sampled_from([NOTHING, *versions]))
    back = ver.reverted(versions[:2], to, 9e9, "ann", "why")
    assert back.weights == to.weights
    assert back.evidence == to.evidence
    assert (back.origin, back.of_version, back.identity) == (Origin.REVERTED, to.number, "ann")
    stored = ver.decode(back.number, back.time, ver.encode(back))
    assert stored == back, "and so does what is stored"
    assert ver.in_use([back, *versions]) == back


@given(steps)
@settings(max_examples=40)
def test_no_unapproved_weights_drift_beyond_the_bound(given: list[tuple[list[Outcome], float]]) -> None:
    for version in history_of(given, approve_above=0.3):
        if version.origin is Origin.LEARNED:
            assert largest_change({}, version.weights) <= 0.3 + 1e-9
        else:
            assert version.origin is Origin.PROPOSED


def test_a_large_change_waits_and_nothing_is_learned_meanwhile() -> None:
    evidence = observed({}, rounds(20), 0.0)
    first = ver.learned([], evidence, 0.0, 0.3)
    assert first is not None
    assert first.origin is Origin.LEARNED, "0.25 is within 0.3"
    second = ver.learned([first], evidence, 1.0, 0.3)
    assert second is not None
    assert second.origin is Origin.PROPOSED
    assert ver.in_use([second, first]) == first
    assert ver.learned([second, first], evidence, 2.0, 0.3) is None
    approved = ver.decided([second, first], 3.0, "ann", "", approve=True)
    assert (approved.weights, approved.approved) == (second.weights, second.weights)
    rejected = ver.decided([second, first], 3.0, "ann", "", approve=False)
    assert (rejected.weights, rejected.evidence) == (first.weights, first.evidence)
    assert rejected.approved == {}, "a rejection approves nothing"


# Choices --------------------------------------------------------------------------------------------------------------


def test_a_run_has_the_same_variant_whenever_it_is_asked() -> None:
    weights = {variant("brief"): 2.0, variant("default"): 0.5}
    chosen = [choose_variant(f"run-{number}", "writer", ["default", "brief"], weights) for number in range(1_000)]
    again = [choose_variant(f"run-{number}", "writer", ["brief", "default"], weights) for number in range(1_000)]
    assert chosen == again
    assert 750 < chosen.count("brief") < 850, "four of five, and the worst is tried still"


def test_a_tool_that_keeps_failing_is_offered_last() -> None:
    weights = {
        Subject("tool", "writer", "search"): 0.5,
        Subject("tool", "writer", "fetch"): 0.7,
        Subject("tool", "writer", "clock"): 0.8,
        Subject("tool", "other", "clock"): 0.5,
    }
    assert last_tools("writer", weights) == ["fetch", "search"]
    assert choices_of("r", 3, weights, {}, ["writer"]) == {
        "version": 3,
        "roles": {"writer": {"tools_last": ["fetch", "search"]}},
    }
    assert choices_of("r", 0, {}, {}, ["writer"]) == {}
