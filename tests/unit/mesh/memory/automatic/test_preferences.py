"""Which sentences of a user state a lasting preference."""

from __future__ import annotations

import pytest

from archon_mesh.memory.automatic.preferences import from_reply, preferences, same


@pytest.mark.parametrize(
    "sentence",
    [
        "I only fly with window seats",
        "I prefer trains to planes.",
        "I'm allergic to peanuts.",
        "We are strictly vegetarian.",
        "I don't eat meat.",
        "My favourite colour is green.",
        "My name is Ada Lovelace.",
        "Call me Ada.",
        "From now on, answer in French.",
        "Never book a hotel without breakfast.",
        "Please always use metric units.",
        "I live in Lyon.",
        "Remember that the invoices go to accounting.",
        "I no longer like coffee.",
    ],
)
def test_a_lasting_wish_is_a_preference(sentence: str) -> None:
    assert preferences(f"Hello there.\n{sentence}\nThanks!") == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Do I always have to pay?",
        "If I prefer trains, what then?",
        "I only need two tickets.",
        "I want a flight to Paris.",
        "I like this answer.",
        "I never said that.",
        "Book a table for this time only, I prefer outside this time.",
        "The cat always sleeps.",
        "Suppose I live in Lyon.",
    ],
)
def test_a_question_or_a_wish_for_now_is_no_preference(sentence: str) -> None:
    assert preferences(sentence) == []


def test_preferences_of_one_message_are_bounded() -> None:
    text = " ".join(f"I prefer thing {number}." for number in range(50))
    assert len(preferences(text)) == 5
    assert preferences("I prefer " + "x" * 500) == []


def test_preferences_with_the_same_words_are_the_same() -> None:
    assert same("I only fly with window seats", "i only fly with window seats!")
    assert not same("I only fly with window seats", "I only fly with aisle seats")


def test_a_model_lists_preferences_one_per_line() -> None:
    assert from_reply("- Ana is vegan.\n2. Ana lives in Lyon.\n\n") == ["Ana is vegan.", "Ana lives in Lyon."]
    assert from_reply("NONE") == from_reply("None.") == []
