"""Splits a text into sentences, in a time that is linear in its length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from archon_mesh.core.words import FUNCTION_WORDS, MAX_WORD, first_word

_MARKER: Final = re.compile(
    r"\s*(?:[-*+•‣▪]|\d{1,3}[.)]|\(\d{1,3}\)|\(?[a-z]\)|R\d{1,5}[.:)]|\#{1,6})\s+(?:\[[ xX]\]\s+)?"
)
_BOUNDARY: Final = re.compile(r"(?<![.!?…])([.!?…]++)([\"'”\u2019»)\]]*+)\s++")
_QUOTED: Final = re.compile(r"(?<!\w)\"[^\"]*+\"(?!\w)|“[^”“]*+”|«[^»«]*+»|\([^()]*+\)")
_BOUNDARY_IN_QUOTED: Final = re.compile(r"[.!?…](?=[\"'”\u2019»)\]]*+\s)")
_ABBREVIATION: Final = re.compile(r"[A-Z]|(?:[A-Za-z]\.)+[A-Za-z]|(?i:mrs?|ms|dr|prof|st|vs|cf|etc|inc|ltd|corp)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, verbatim except that line breaks are single spaces. `is_item`: it is in an item of a list."""

    text: str
    is_item: bool = False


def split_sentences(text: str) -> list[Sentence]:
    """Splits a text into sentences. Each item of a list and each heading starts a new one, without its marker."""
    blocks: list[tuple[list[str], bool]] = [([], False)]
    for line in text.splitlines():
        marker = _MARKER.match(line)
        is_heading = marker is not None and "#" in marker[0]
        stripped = line[marker.end() if marker else 0 :].strip()
        if marker or not stripped:
            blocks.append(([], marker is not None and not is_heading))
        if stripped and not stripped.startswith("```"):
            blocks[-1][0].append(stripped)
        if is_heading:
            blocks.append(([], False))
    return [Sentence(part, is_item) for lines, is_item in blocks for part in _parts(" ".join(lines)) if part]


def _parts(block: str) -> Iterator[str]:
    # Of the same length, without ends of sentences inside quotes.
    masked = _QUOTED.sub(lambda quoted: _BOUNDARY_IN_QUOTED.sub("_", quoted[0]), block)
    start = 0
    for match in _BOUNDARY.finditer(masked):
        if match.end() < len(block) and _ends_sentence(block, match):
            yield block[start : match.end(2)]
            start = match.end()
    yield block[start:]


def _ends_sentence(block: str, match: re.Match[str]) -> bool:
    following = block[match.end()]
    if match[2] or match[1] in ("...", "…"):
        return not following.islower()
    # Only a few characters before the mark, because one "word" may be the whole text.
    before = re.split(r"[\s(\"“«,;/]", block[max(0, match.start() - 12) : match.start()])[-1]
    if match[1] == "." and _ABBREVIATION.fullmatch(before):
        # J. Smith, the U.S. Army; but: item A. The next.
        return following.isupper() and first_word(block[match.end() : match.end() + MAX_WORD]) in FUNCTION_WORDS
    return match[1] != "." or not following.isdigit()
