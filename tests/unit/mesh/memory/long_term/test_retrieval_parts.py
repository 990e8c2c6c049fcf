"""Aspects, fusion, weights and duplicates."""

from __future__ import annotations

import pytest

from archon.errors import InvalidArgument
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term.retrieval.aspects import MAX_ASPECTS, aspects
from archon_mesh.memory.long_term.retrieval.fusion import Ranking, fuse
from archon_mesh.memory.long_term.retrieval.similarity import coverage, is_duplicate, query_stems
from archon_mesh.memory.long_term.retrieval.weights import Weights
from tests.fixtures.long_term_entries import entry

DAY = 86_400.0


def test_a_query_of_one_clause_has_one_aspect() -> None:
    assert aspects("Which port does atlas use?") == ["Which port does atlas use?"]
    assert aspects("bread and butter") == ["bread and butter"]


def test_sentences_and_clauses_are_aspects() -> None:
    query = "Book cheap flights to Milan, and find quiet hotels. Who pays expenses?"
    assert aspects(query) == [query, "Book cheap flights to Milan", "find quiet hotels", "Who pays expenses"]
    assert len(aspects(". ".join(["many short topics"] * 50))) == MAX_ASPECTS


def test_fusion_prefers_what_several_rankings_name() -> None:
    fused = fuse([Ranking(["a", "b"]), Ranking(["b", "c"])])
    assert max(fused, key=lambda key: fused[key]) == "b"
    assert fused["a"] > fused["c"], "rank 1 counts for more than rank 2"


def test_scores_of_a_ranking_count_in_place_of_ranks() -> None:
    by_rank, by_score = Ranking(["a", "b"]), Ranking(["b", "a"], [0.9, 0.2])
    fused = fuse([by_rank, by_score])
    assert max(fused, key=lambda key: fused[key]) == "b"


def test_weights_fall_with_age_and_bad_feedback() -> None:
    weights = Weights()
    new, old = entry("x", 100 * DAY), entry("x", 10 * DAY)
    assert weights.factor(new, 100 * DAY) > weights.factor(old, 100 * DAY)
    assert weights.factor(old, 10 * DAY) == weights.factor(new, 100 * DAY), "only the age counts"
    good, bad = entry("x", useful=3), entry("x", not_useful=3)
    assert weights.factor(good, 0) > weights.factor(entry("x"), 0) > weights.factor(bad, 0)
    assert weights.factor(entry("x", importance=0.9), 0) > weights.factor(entry("x", importance=0.1), 0)
    assert Weights(0, 0, 0).factor(bad, 1e9) == 1


@pytest.mark.parametrize("arguments", [{"recency": 1.1}, {"feedback": -0.1}, {"half_life": 0}])
def test_invalid_weights_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        Weights(**arguments)


def test_a_duplicate_has_the_same_words_and_numbers() -> None:
    assert is_duplicate("Ana prefers aisle seats.", "ana prefers AISLE seat")
    assert not is_duplicate("The rent is 1,450 euros", "The rent is 1,520 euros")
    assert not is_duplicate("Ana likes red wine", "Ana dislikes red cars")


def test_coverage_counts_forms_of_a_word() -> None:
    assert coverage(query_stems("allergies of the children"), "A child has an allergy") == 0.5
    assert coverage(query_stems("booked flights"), "book a flight") == 1
    assert coverage(frozenset(), "anything") == 0


def test_function_words_are_no_topic() -> None:
    assert content_words("What is the caf\u00e9's address?") == ["cafe", "address"]
    assert content_words("who is it") == ["who", "is", "it"], "a query of nothing else keeps them"
