"""The rules of decisions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine.decisions import DECISIONS, Candidate, decision_fault, resolve


def of(*texts: str) -> list[Candidate]:
    return [Candidate(f"s{number}", text, f"role{number}") for number, text in enumerate(texts, 1)]


def winner(rule: str, *texts: str, absent: int = 0, **arguments: Any) -> str:
    assert decision_fault(rule, arguments) == ""
    without = [Candidate(f"x{number}", "") for number in range(absent)]
    return resolve(rule, arguments, of(*texts), without).winner


def test_the_first_result() -> None:
    assert winner("first", "a", "b") == "s1"


def test_the_answer_of_most() -> None:
    assert winner("vote", "Lyon", "Paris", "paris.") == "s2"
    assert winner("vote", "360", "12", "361") == "s1"


def test_a_tie_is_undecided_unless_the_answers_agree() -> None:
    assert winner("vote", "a", "b") == ""
    assert winner("vote", "a", "b", "a", "b", "c") == ""
    assert winner("vote", "a", "a") == "s1"


def test_a_vote_weighted_by_confidence() -> None:
    texts = ('{"answer": 1, "confidence": 0.3}', '{"answer": 1, "confidence": 0.3}', '{"answer": 2, "confidence": 0.9}')
    assert winner("vote", *texts, by="answer") == "s1"
    assert winner("vote", *texts, by="answer", weight="confidence") == "s3"


def test_weights_by_record_are_equal_unless_a_host_knows_records() -> None:
    assert winner("vote", "a", "b", "b", weights="record") == "s2"
    assert decision_fault("vote", {"weights": "record"}) == decision_fault("settle", {"weights": "record"}) == ""
    assert "or be record" in decision_fault("best", {"weights": "recent"})


def test_a_vote_with_weights_by_step_or_role() -> None:
    assert winner("vote", "a", "b", "b", weights={"s1": 3}) == "s1"
    assert winner("vote", "a", "b", "b", weights={"role1": 3}) == "s1"
    assert winner("vote", "a", "b", weights={"role1": 0, "role2": 0}) == ""


def test_a_vote_needs_a_part_of_all_votes_those_of_absent_steps_included() -> None:
    assert winner("vote", "a", "a", "b", least=0.5) == "s1"
    assert winner("vote", "a", "b", "c", "a", least=0.6) == ""
    assert winner("vote", "a", "a", "b", least=1) == ""
    assert winner("vote", "a", "a", least=1) == "s1"
    assert winner("vote", "a", absent=2, least=0.5) == ""
    assert winner("vote", "a", "a", absent=2, least=0.5) == "s1"


def test_the_answer_of_the_greatest_confidence_or_authority() -> None:
    texts = ('{"answer": 1, "confidence": 0.5}', '{"answer": 2, "confidence": 0.9}')
    assert winner("best", *texts) == "s2"
    assert winner("best", *texts, weights={"role1": 2}) == "s1"
    assert winner("best", "a", "b") == ""
    assert winner("best", "a", "A") == "s1"


def test_the_votes_say_what_each_result_weighed() -> None:
    made = resolve("vote", {}, of("a", "b", "a"))
    assert [(vote.step_id, vote.role, vote.weight, vote.support) for vote in made.votes] == [
        ("s1", "role1", 1, 2),
        ("s2", "role2", 1, 1),
        ("s3", "role3", 1, 2),
    ]
    assert made.reason == "the answer of s1 has 2 of 3 votes"


@pytest.mark.parametrize("rule", DECISIONS)
def test_nothing_is_decided_without_a_result(rule: str) -> None:
    assert resolve(rule, {}, []).winner == ""


@pytest.mark.parametrize(
    ("rule", "arguments", "problem"),
    [
        ("toss", {}, "there is no decision 'toss', but first, vote, best, settle, award"),
        ("first", {"by": "x"}, "'by' is no argument of first, which has none"),
        ("vote", {"most": 1}, "'most' is no argument of vote, which has by, weight, weights, least"),
        ("vote", {"by": 1}, "'by' must be a text"),
        ("vote", {"weight": "heavy"}, "'weight' must be equal or confidence"),
        (
            "vote",
            {"weights": {"a": -1}},
            "'weights' must have a number from 0 to 1,000,000 for each step or role, or be record",
        ),
        (
            "vote",
            {"weights": [1]},
            "'weights' must have a number from 0 to 1,000,000 for each step or role, or be record",
        ),
        ("vote", {"least": 1.5}, "'least' must be a number from 0 to 1"),
        ("vote", {"least": float("nan")}, "'least' must be a number from 0 to 1"),
        ("vote", {"least": True}, "'least' must be a number from 0 to 1"),
    ],
)
def test_wrong_arguments_have_a_reason(rule: str, arguments: dict[str, Any], problem: str) -> None:
    assert decision_fault(rule, arguments) == problem


@given(st.lists(st.sampled_from(["a", "b", "100", "104", "108", "-100"]), min_size=1, max_size=9))
def test_the_winner_of_a_vote_does_not_depend_on_the_order_of_the_results(texts: list[str]) -> None:
    made = resolve("vote", {}, of(*texts))
    turned = resolve("vote", {}, of(*texts)[::-1])
    assert bool(made.winner) == bool(turned.winner)
    if made.winner:
        support = {vote.step_id: vote.support for vote in made.votes}
        assert support[made.winner] == support[turned.winner] == max(support.values())
