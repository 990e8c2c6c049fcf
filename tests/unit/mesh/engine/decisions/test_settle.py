"""The rule `settle`: results that differ, and the first way that decides between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon_mesh.engine.decisions import Candidate, Resolution, decision_fault, resolve


def settled(*texts: str, **arguments: Any) -> Resolution:
    assert decision_fault("settle", arguments) == ""
    return resolve("settle", arguments, [Candidate(f"s{n}", text, f"role{n}") for n, text in enumerate(texts, 1)])


def sure(answer: object, confidence: float) -> str:
    return json.dumps({"answer": answer, "confidence": confidence})


def test_a_majority_comes_first() -> None:
    made = settled("Paris", "Lyon", "paris")
    assert (made.winner, made.rule) == ("s1", "settle")
    assert made.reason == "by majority: the answer of s1 has 2 of 3 votes"


def test_without_a_majority_the_most_confident_answer_counts() -> None:
    made = settled(sure("Paris", 0.6), sure("Lyon", 0.9), by="answer")
    assert made.winner == "s2"
    assert made.reason == "by confidence: s2 has the greatest weight, 0.9"


def test_the_greatest_part_of_the_votes_is_no_majority() -> None:
    assert settled("a", "a", "b", "c").winner == ""
    assert settled("a", "a", "b", "c", order=["authority"], weights={"role3": 5}).winner == "s3"


def test_confidence_decides_only_if_every_answer_states_it() -> None:
    made = settled(sure("Paris", 0.6), "Lyon", by="answer")
    assert made.winner == ""
    assert "confidence: not every answer states its confidence" in made.reason


def test_authority_decides_by_the_weights_of_roles() -> None:
    made = settled("Paris", "Lyon", weights={"role2": 3})
    assert made.winner == "s2"
    assert made.reason == "by authority: s2 has the greatest weight, 3"


def test_the_order_can_be_another() -> None:
    texts = "Paris", "Paris", "Lyon"
    assert settled(*texts, order=["authority", "majority"], weights={"role3": 9}).winner == "s3"
    assert settled(*texts, order=["majority", "authority"], weights={"role3": 9}).winner == "s1"


def test_undecided_says_why_each_way_failed() -> None:
    made = settled("Paris", "Lyon")
    assert made.reason.split("; ") == [
        "majority: a tie: 2 candidates have 1 of 2 votes each",
        "confidence: not every answer states its confidence",
        "authority: no weights are given",
    ]


@pytest.mark.parametrize("order", [[], ["toss"], "majority", [1]])
def test_an_order_lists_known_ways(order: object) -> None:
    assert "must list ways to decide" in decision_fault("settle", {"order": order})


@pytest.mark.parametrize("rule", ["vote", "best", "settle"])
def test_results_that_differ_are_a_conflict(rule: str) -> None:
    candidates = [Candidate("a", "360"), Candidate("b", "361"), Candidate("c", "240\n")]
    assert resolve(rule, {}, candidates).conflict == 'a and b say "360"; c says "240"'


def test_results_that_agree_are_no_conflict() -> None:
    assert resolve("vote", {}, [Candidate("a", "360"), Candidate("b", "355")]).conflict == ""
    assert resolve("vote", {}, [Candidate("a", "Paris"), Candidate("b", "paris.")]).conflict == ""
    assert resolve("vote", {}, []).conflict == ""


def test_the_first_of_several_results_and_bids_are_no_conflict() -> None:
    candidates = [Candidate("a", "x"), Candidate("b", "y")]
    assert resolve("first", {}, candidates).conflict == ""
    assert resolve("award", {}, candidates).conflict == ""


def test_a_conflict_shows_the_compared_field_and_is_short() -> None:
    long = [Candidate(f"s{n}", sure(f"{n} " * 100, 0.5)) for n in range(30)]
    conflict = resolve("best", {"by": "answer"}, long).conflict
    assert conflict.startswith('s0 says "0 0 0')
    assert len(conflict) < 500
    same = [Candidate(f"s{n}", "x") for n in range(30)] + [Candidate("other", "y")]
    assert resolve("vote", {}, same).conflict == 's0, s1, s2, s3, s4 and 25 more say "x"; other says "y"'


def test_a_conflict_shows_where_answers_that_begin_alike_differ() -> None:
    begin = "The bridge over the river was built a long time ago, by order of the king, in the year "
    made = resolve("vote", {}, [Candidate("a", f"{begin}1665."), Candidate("b", f"{begin}1695.")])
    assert (
        made.conflict == 'a says "...er of the king, in the year 1665."; b says "...er of the king, in the year 1695."'
    )
