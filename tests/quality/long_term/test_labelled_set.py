"""The labelled set is large enough and consistent."""

from __future__ import annotations

from collections import Counter

from tests.quality.long_term.labelled_set import HALVES, KINDS, memories, questions


def test_the_set_is_large_enough_and_keys_are_unique() -> None:
    entries = memories()
    assert len(entries) >= 300
    assert len({entry.key for entry in entries}) == len({entry.text for entry in entries}) == len(entries)
    assert len(questions("tuning")) + len(questions("final")) >= 150


def test_both_halves_have_the_same_number_of_each_kind() -> None:
    tuning, final = (Counter(question.kind for question in questions(half)) for half in HALVES)
    assert tuning == final
    assert set(tuning) == set(KINDS)


def test_no_question_is_in_both_halves() -> None:
    assert not {question.text for question in questions("tuning")} & {question.text for question in questions("final")}


def test_expected_memories_belong_to_the_user_who_asks() -> None:
    owner = {entry.key: entry.user for entry in memories()}
    for question in (*questions("tuning"), *questions("final")):
        assert question.expected, question
        assert {owner[key] for key in question.expected} == {question.user}, question
