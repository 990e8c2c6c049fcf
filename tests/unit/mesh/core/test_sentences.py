"""Sentences of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.sentences import split_sentences


def sentences(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


@pytest.mark.parametrize(
    "sentence",
    [
        "It exports formats, e.g. PDF or i.e. others.",
        "Dr. Smith and J. R. Miller sign for the U.S. Army.",
        "It runs on Python 3.11 and on 3.12.",
        "Read https://example.org/a.b?c=d!e before use.",
        'The dialog says "Done. Thank you." before it closes.',
        "It logs all (see the list. Also its end.) and rotates.",
        "It waits... and goes on.",
        "Send at most approx. 5 mails, max. 6, on Fig. 3 or No. 4.",
        "It costs 3.50 a month.",
        "Two  spaces\tand a tab stay.",
    ],
)
def test_apparent_sentence_end_does_not_split(sentence: str) -> None:
    assert sentences(f"One comes before. {sentence} One comes after!") == [
        "One comes before.",
        sentence,
        "One comes after!",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It ends within 5 s. The next.", ["It ends within 5 s.", "The next."]),
        ("Take item A. The next.", ["Take item A.", "The next."]),
        ("It has PDF, CSV, etc. The next.", ["It has PDF, CSV, etc.", "The next."]),
        ('He said "go." The next.', ['He said "go."', "The next."]),
        ("Really? Yes! no matter. and so on", ["Really?", "Yes!", "no matter.", "and so on"]),
        ('The 5" screen works. The 7" screen too.', ['The 5" screen works.', 'The 7" screen too.']),
        ("", []),
        (" \n\t\n", []),
        ("...", ["..."]),
    ],
)
def test_actual_sentence_end_splits(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_wrapped_lines_are_joined_by_one_space() -> None:
    assert sentences("The system must\n   export invoices  \r\nas PDF.\nIt shall\tlog.") == [
        "The system must export invoices as PDF.",
        "It shall\tlog.",
    ]


def test_list_items_and_headings_are_sentences_without_markers() -> None:
    text = "# Goal\nIntro\n- keep mails\n  a year\n* [ ] send\n2) print\n(3) fold\na) cut\nR7. glue\n\nEnd"
    assert sentences(text) == [
        "Goal", "Intro", "keep mails a year", "send", "print", "fold", "cut", "glue", "End"
    ]  # fmt: skip


@given(st.text())
def test_sentences_contain_only_the_text_in_its_order(text: str) -> None:
    joined = "".join("".join(sentence.split()) for sentence in sentences(text))
    rest = iter("".join(text.split()))
    assert all(char in rest for char in joined)


@given(st.text(alphabet="ab.!?\"“”'()- \n1R#", max_size=200))
def test_sentence_is_never_blank_and_has_no_line_break(text: str) -> None:
    assert all(each.strip() == each != "" and len(each.splitlines()) == 1 for each in sentences(text))
