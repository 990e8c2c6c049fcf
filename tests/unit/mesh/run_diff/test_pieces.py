"""The difference of two texts by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.run_diff import Piece, PieceKind, word_diff
from archon_mesh.run_diff.pieces import MAX_WORDS

SAME, REMOVED, ADDED = PieceKind


def test_words_that_differ_are_removed_and_added() -> None:
    assert word_diff("It must sync today.", "It must be fast today.") == [
        Piece(SAME, "It must"),
        Piece(REMOVED, " sync"),
        Piece(ADDED, " be fast"),
        Piece(SAME, " today."),
    ]
    assert word_diff("a", "a") == [Piece(SAME, "a")] and word_diff("", "") == []
    assert word_diff("", "new") == [Piece(ADDED, "new")] and word_diff("old", "") == [Piece(REMOVED, "old")]


def test_texts_that_differ_in_white_space_differ() -> None:
    assert word_diff("a b", "a  b") == [Piece(SAME, "a"), Piece(REMOVED, " "), Piece(ADDED, "  "), Piece(SAME, "b")]


WORDS = st.text(alphabet="ab \n", max_size=40)


@given(WORDS, WORDS)
def test_the_pieces_make_up_both_texts(left: str, right: str) -> None:
    pieces = word_diff(left, right)
    assert "".join(piece.text for piece in pieces if piece.kind is not ADDED) == left
    assert "".join(piece.text for piece in pieces if piece.kind is not REMOVED) == right
    assert (left == right) == all(piece.kind is SAME for piece in pieces)


@pytest.mark.large
def test_long_texts_are_compared_line_by_line_first() -> None:
    lines = [f"line {number} of a long text" for number in range(MAX_WORDS)]
    changed = [*lines[:100], "another line", *lines[101:]]
    pieces = word_diff("\n".join(lines), "\n".join(changed))
    assert {piece.kind for piece in pieces} == {SAME, REMOVED, ADDED} and len(pieces) < 10
    assert "".join(piece.text for piece in pieces if piece.kind is not REMOVED) == "\n".join(changed)
    huge = " ".join(str(number) for number in range(3 * MAX_WORDS))
    assert [piece.kind for piece in word_diff(huge, huge + " end")] == [REMOVED, ADDED]
