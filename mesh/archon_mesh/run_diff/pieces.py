"""The difference of two texts by words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

MAX_WORDS: Final = 2_000
"""Words of one block that are compared word by word; longer ones are compared line by line first, and lines that differ
in more words than this are replaced as a whole."""

MAX_LINES: Final = 5_000
"""Lines that are compared; texts with more are replaced as a whole."""

_WORD: Final = re.compile(r"\s*\S+")


class PieceKind(StrEnum):
    """Where a piece of text is: in both texts, or in one of them."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text that is in both texts, or in one of them."""

    kind: PieceKind
    text: str


def word_diff(left: str, right: str) -> list[Piece]:
    """Returns the pieces of the texts in order: those that are the same or removed make up the left text, those that
    are the same or added the right one. Words are compared without the white space around them."""
    if left == right:
        return [Piece(PieceKind.SAME, left)] if left else []
    return _merged(_pieces(left, right))


def _pieces(left: str, right: str) -> Iterator[Piece]:
    first, second = _words(left), _words(right)
    if max(len(first), len(second)) <= MAX_WORDS:
        yield from _compared(first, second)
        return
    lines, others = left.splitlines(keepends=True), right.splitlines(keepends=True)
    if max(len(lines), len(others)) > MAX_LINES:
        yield from _replaced(left, right)
        return
    for tag, start, end, other_start, other_end in SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        old, new = "".join(lines[start:end]), "".join(others[other_start:other_end])
        old_words, new_words = _words(old), _words(new)
        if tag == "equal":
            yield Piece(PieceKind.SAME, old)
        elif max(len(old_words), len(new_words)) <= MAX_WORDS:
            yield from _compared(old_words, new_words)
        else:
            yield from _replaced(old, new)


def _words(text: str) -> list[str]:
    """Returns the words, each with the white space before it; white space at the end belongs to the last one."""
    words = _WORD.findall(text)
    rest = text[sum(map(len, words)) :]
    if rest:
        words[-1:] = [words[-1] + rest] if words else [rest]
    return words


def _compared(first: Sequence[str], second: Sequence[str]) -> Iterator[Piece]:
    matcher = SequenceMatcher(None, [word.strip() for word in first], [word.strip() for word in second], autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            for old, new in zip(first[start:end], second[other_start:other_end], strict=True):
                yield from _equal(old, new)
        else:
            yield from _replaced("".join(first[start:end]), "".join(second[other_start:other_end]))


def _equal(old: str, new: str) -> Iterator[Piece]:
    """Yields the pieces of a word that is the same, with different white space around it perhaps."""
    if old == new:
        yield Piece(PieceKind.SAME, new)
        return
    word = new.strip()
    for index, (before, after) in enumerate(zip(old.split(word, 1), new.split(word, 1), strict=True) if word else ()):
        if index:
            yield Piece(PieceKind.SAME, word)
        if before == after:
            yield from [Piece(PieceKind.SAME, after)] if after else ()
        else:
            yield from _replaced(before, after)
    if not word:
        yield from _replaced(old, new)


def _replaced(old: str, new: str) -> Iterator[Piece]:
    if old:
        yield Piece(PieceKind.REMOVED, old)
    if new:
        yield Piece(PieceKind.ADDED, new)


def _merged(pieces: Iterator[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        if merged and merged[-1].kind is piece.kind:
            merged[-1] = Piece(piece.kind, merged[-1].text + piece.text)
        else:
            merged.append(piece)
    return merged
