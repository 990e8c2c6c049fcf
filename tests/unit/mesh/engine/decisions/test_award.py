"""The rule `award`: which bid is the best, and what is no bid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine.decisions import BID_SCHEMA, Bid, Candidate, decision_fault, resolve


def bid(cost: float = 0, seconds: float = 0, quality: float = 0) -> str:
    return json.dumps({"cost_micro_usd": cost, "seconds": seconds, "quality": quality})


def awarded(*texts: str, **arguments: Any) -> str:
    assert decision_fault("award", arguments) == ""
    candidates = [Candidate(f"s{number}", text, "coder") for number, text in enumerate(texts, 1)]
    return resolve("award", arguments, candidates).winner


def test_the_cheapest_fastest_and_best_bid_wins() -> None:
    assert awarded(bid(200, 10, 0.8), bid(100, 10, 0.8)) == "s2"
    assert awarded(bid(100, 20, 0.8), bid(100, 10, 0.8)) == "s2"
    assert awarded(bid(100, 10, 0.7), bid(100, 10, 0.8)) == "s2"
    assert awarded(bid(100, 10, 0.8), bid(100, 10, 0.8)) == "s1"


def test_weights_say_what_counts() -> None:
    cheap, fast, good = bid(10, 100, 0.5), bid(100, 10, 0.5), bid(100, 100, 0.9)
    assert awarded(cheap, fast, good, cost=5) == "s1"
    assert awarded(cheap, fast, good, time=5) == "s2"
    assert awarded(cheap, fast, good, cost=0, time=0) == "s3"


def test_a_bid_that_states_nothing_wins_against_no_one() -> None:
    assert awarded(bid(), bid(100, 10, 0.1)) == "s2"
    assert awarded(bid(0, 10, 0.5), bid(100, 10, 0.5), bid(200, 10, 0.5)) == "s2"
    assert awarded(bid(100, 10, 0), bid(100, 10, 0.5), bid(100, 10, 0.9)) == "s3"


def test_bids_outside_of_the_limits_do_not_count() -> None:
    assert awarded(bid(100, 10, 0.9), bid(200, 20, 0.9), most_micro_usd=50) == ""
    assert awarded(bid(100, 10, 0.9), bid(50, 100, 0.9), most_seconds=10) == "s1"
    assert awarded(bid(10, 1, 0.2), bid(100, 10, 0.9), least_quality=0.5) == "s2"


@pytest.mark.parametrize(
    "text",
    [
        "I would do it in 10 s.",
        "{}",
        "[]",
        '{"cost_micro_usd": -1}',
        '{"quality": 2}',
        '{"seconds": "10"}',
        '{"seconds": true}',
        '{"seconds": NaN}',
        '{"cost_micro_usd": 1e400}',
        "",
    ],
)
def test_anything_else_is_no_bid(text: str) -> None:
    assert awarded(text) == ""
    assert awarded(text, bid(100, 10, 0.1)) == "s2"


def test_an_award_is_decided_also_without_a_bid() -> None:
    resolution = resolve("award", {}, [], [Candidate("a", "")])
    assert resolution.is_decided
    assert (resolution.winner, resolution.reason) == ("", "there is no bid")
    assert resolve("award", {}, [Candidate("a", "no")]).is_decided


def test_the_bids_and_their_scores_are_in_the_resolution() -> None:
    candidates = [Candidate("a", bid(100, 10, 0.5), "coder"), Candidate("b", "no bid"), Candidate("c", bid(50, 5, 1))]
    resolution = resolve("award", {}, candidates)
    assert [(vote.step_id, vote.bid) for vote in resolution.votes] == [("a", Bid(100, 10, 0.5)), ("c", Bid(50, 5, 1))]
    assert resolution.votes[1].weight == 1
    assert resolution.votes[0].weight == pytest.approx(0.5)
    assert resolution.reason == "c has the best of 2 bids: 1.00"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"cost": -1}, "'cost' must be a number from 0 to 1,000,000"),
        ({"most_seconds": "5"}, "'most_seconds' must be a number, 0 or more"),
        ({"least_quality": 2}, "'least_quality' must be a number from 0 to 1"),
        ({"by": "x"}, "'by' is no argument of award, which has cost, time, quality, most_micro_usd, most_seconds, "),
    ],
)
def test_wrong_arguments_have_a_reason(arguments: dict[str, Any], fault: str) -> None:
    assert decision_fault("award", arguments).startswith(fault)


@given(
    st.lists(
        st.builds(bid, st.integers(0, 10**15), st.floats(0, 1e9), st.floats(0, 1)) | st.text(max_size=5),
        min_size=1,
        max_size=8,
    ),
    st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6)),
)
def test_any_bids_have_one_winner_at_most_and_scores_from_0_to_1(texts: list[str], weights: tuple[float, ...]) -> None:
    arguments = dict(zip(("cost", "time", "quality"), weights, strict=True))
    candidates = [Candidate(f"s{number}", text) for number, text in enumerate(texts)]
    resolution = resolve("award", arguments, candidates)
    assert resolution == resolve("award", arguments, candidates)
    assert all(0 <= vote.weight <= 1 + 1e-9 for vote in resolution.votes)
    assert bool(resolution.winner) == bool(resolution.votes)


def test_the_schema_of_a_bid_accepts_what_the_rule_reads() -> None:
    from jsonschema import validate

    validate(json.loads(bid(100, 10, 0.5)), dict(BID_SCHEMA))
