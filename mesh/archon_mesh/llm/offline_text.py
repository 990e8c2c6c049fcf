"""Plain text analysis: sentences, demands among them, and their salient words.

The run time is linear in the length of any text; patterns that could backtrack far are possessive.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from archon_mesh.llm.offline_words import (
    ABBREVIATIONS,
    BEFORE_CAPITAL,
    BEFORE_NUMBER,
    IMPERATIVES,
    QUESTION_STARTS,
    STOP_WORDS,
)

_MARKER = re.compile(
    r"\s*(?:[-*+•‣▪]|\d{1,3}[.)]|\(\d{1,3}\)|\(?[a-z]\)|R\d{1,5}[.:)]|\#{1,6})\s+"
    r"(?:\[[ xX]\]\s+)?"  # a check box
)
_BOUNDARY = re.compile(r"(?<![.!?…])[.!?…]++([\"'”\u2019»)\]]*+)\s++")
_QUOTED = re.compile(r"(?<!\w)\"[^\"]*+\"(?!\w)|“[^”“]*+”|«[^»«]*+»|\([^()]*+\)")
_INITIALS = re.compile(r"(?:(?<!\w)[A-Z]|\b[A-Za-z]\.[A-Za-z])\.$")
_DEMAND = re.compile(
    r"\b(?:(?:must|shall|should)(?:n['\u2019]t)?|shan['\u2019]t|(?<!no )needs?|needed|ha(?:s|ve) to|ought to|"
    r"required|requires?|mandatory|wants?|wanted|would like|ensures?|make sure|"
    r"may (?:not|only)|can ?not|can['\u2019]t|is to be|are to be)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_][^\W_]*")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, verbatim except that line breaks are single spaces."""

    text: str
    is_item: bool = False


def split_sentences(text: str) -> list[Sentence]:
    """Splits a text into sentences. Each bullet or numbered line starts a new one, without its marker."""
    sentences: list[Sentence] = []
    block: list[str] = []
    is_item = False

    def end_block() -> None:
        if block:
            sentences.extend(Sentence(part, is_item) for part in _split_block(" ".join(block)))
            block.clear()

    for line in text.splitlines():
        marker = _MARKER.match(line)
        stripped = line[marker.end() if marker else 0 :].strip()
        if marker or not stripped:
            end_block()
            is_item = marker is not None and "#" not in marker[0]
        if stripped and not stripped.startswith("```"):
            block.append(stripped)
        if marker and "#" in marker[0]:
            end_block()
    end_block()
    return sentences


def find_demands(text: str) -> list[str]:
    """Returns the sentences that demand something, in order, or else those that begin with an imperative."""
    sentences = split_sentences(text)
    demands = [
        sentence.text
        for sentence in sentences
        if _is_demand(sentence.text) or (sentence.is_item and _is_imperative(sentence.text))
    ]
    return demands or [sentence.text for sentence in sentences if _is_imperative(sentence.text)]


def salient_words(sentence: str, limit: int) -> list[str]:
    """Returns the first words that are not stop words, without repetition."""
    words = (match[0] for match in _WORD.finditer(unicodedata.normalize("NFKC", sentence)))
    by_lower_case: dict[str, str] = {}
    for word in words:
        if len(by_lower_case) == limit:
            break
        if word.lower() not in STOP_WORDS and len(word) > 1:
            by_lower_case.setdefault(word.lower(), word)
    return list(by_lower_case.values())


def shorten(text: str, words: int) -> str:
    """Returns the first words of a text, with an ellipsis if there are more."""
    # Splits only as far as needed, because the text may be long.
    parts = text.split(maxsplit=words)
    if len(parts) <= words:
        return " ".join(parts)
    return " ".join(parts[:words]).rstrip(".,;:") + " ..."


def _split_block(block: str) -> list[str]:
    protected = [match.span() for match in _QUOTED.finditer(block)]
    parts, start, region, previous = [], 0, 0, -1
    for match in _BOUNDARY.finditer(block):
        only_marks, previous = match.start() == previous, match.end()
        while region < len(protected) and protected[region][1] < match.end(1):
            region += 1
        left, right = protected[region] if region < len(protected) else (len(block), len(block))
        if left < match.start() and match.end(1) < right:
            continue
        if not only_marks and match.end() < len(block) and _ends_sentence(block, match):
            parts.append(block[start : match.end(1)])
            start = match.end()
    return [*parts, block[start:].rstrip()]


def _ends_sentence(block: str, match: re.Match[str]) -> bool:
    following = block[match.end()]
    if match[1] and following.islower():
        return False
    mark = match[0].rstrip()
    if mark in ("...", "…"):
        return not following.islower()
    if not mark.startswith(".") or match[1]:
        return True
    # Only a few characters before the mark, because one "word" may be the whole text.
    before = block[max(0, match.start() - 12) : match.start() + 1]
    word = re.split(r"[\s(\"“«,;/]", before)[-1].lower()
    if word in ABBREVIATIONS or (word in BEFORE_NUMBER and following.isdigit()):
        return False
    if word in BEFORE_CAPITAL:
        return following.isupper()
    # J. Smith, the U.S. Army; but: item A. The next.
    next_word = _WORD.match(block, match.end())
    return not _INITIALS.search(before) or (next_word is not None and next_word[0].lower() in STOP_WORDS)


def _is_demand(sentence: str) -> bool:
    if sentence.endswith("?") and sentence.split(maxsplit=1)[0].lower() in QUESTION_STARTS:
        return False
    return _DEMAND.search(sentence) is not None


def _is_imperative(sentence: str) -> bool:
    first = next((match[0] for match in _WORD.finditer(sentence[:40])), "")
    return sentence[:1].isalpha() and first.lower() in IMPERATIVES
