"""Words, stems and n-grams."""

from __future__ import annotations

import pytest

from archon_mesh.core.words import MAX_WORDS, content_words, first_word, folded, ngrams, stem, stems, topic_stems, words


def test_text_is_folded_to_lower_case_without_accents() -> None:
    assert folded("ABC def") == "abc def"
    assert folded("Élan STRASSE Straße Ångström ﬁn") == "elan strasse strasse angstrom fin"


def test_words_have_letters_and_digits_and_no_possessive_s() -> None:
    assert words("Ada's 2 dogs, the cat_dog: rock'n'roll! (x)") == [
        "ada", "2", "dogs", "the", "cat", "dog", "rockn", "roll", "x",
    ]  # fmt: skip
    assert words("Zoë\u2019s O\u2019Neill don't") == ["zoe", "oneill", "dont"]
    assert words("Ada\u2019s") == words("Ada's") == ["ada"]
    assert words(" ... ") == []


def test_first_word_is_folded_and_near_the_start() -> None:
    assert first_word('  "Store mails') == "store"
    assert first_word("") == first_word(" " * 100 + "late") == ""


def test_content_words_are_no_function_words_and_come_once() -> None:
    assert content_words("Which port does the server use, and which port the client?") == [
        "port", "server", "use", "client",
    ]  # fmt: skip
    assert content_words("to be or not to be") == ["to", "be", "or", "not"], "there is no other word"
    many = [f"w{number}" for number in range(MAX_WORDS + 5)]
    assert content_words(" ".join(many)) == many[:MAX_WORDS]


@pytest.mark.parametrize(
    ("forms", "common"),
    [
        ("connect connected connecting connection connections connects", "connect"),
        ("city cities", "cit"),
        ("study studies studied", "stud"),
        ("run runs running runner runners", "run"),
        ("call calls called", "call"),
        ("quick quickly quickest quicker quickness", "quick"),
        ("perform performance performances", "perform"),
        ("exist existence existences", "exist"),
        ("ship shipment shipments", "ship"),
        ("inform information informations", "inform"),
        ("seem seemingly", "seem"),
        ("heavier heavy", "heav"),
        ("file files", "fil"),
        ("box boxes boxer", "box"),
        ("build building buildings", "build"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: str, common: str) -> None:
    assert {stem(form) for form in forms.split()} == {common}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("effectiveness", "effect"),
        ("hopefulness", "hop"),
        ("payments", "pay"),
        ("is", "is"),
        ("bus", "bus"),
        ("ing", "ing"),
        ("sing", "sing"),
        ("red", "red"),
        ("bed", "bed"),
        ("the", "the"),
        ("bee", "bee"),
        ("tree", "tre"),
        ("toys", "toy"),
        ("days", "day"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("missing", "miss"),
        ("add", "add"),
        ("adding", "add"),
        ("egg", "egg"),
        ("eggs", "egg"),
    ],
)
def test_short_words_keep_their_endings(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_topic_has_neither_function_words_nor_numbers() -> None:
    assert stems("The servers of 2024") == {stem("the"), "serv", stem("of"), "2024"}
    assert topic_stems("The servers of 2024") == {"serv"}


def test_ngrams_mark_the_ends_of_a_word() -> None:
    assert list(ngrams("cat", (3,))) == ["<ca", "cat", "at>"]
    assert list(ngrams("cat", (2, 5))) == ["<c", "ca", "at", "t>", "<cat>"]
    assert list(ngrams("a", (4,))) == []
