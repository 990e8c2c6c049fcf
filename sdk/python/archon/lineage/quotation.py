"""Finds the sources of a quotation by their texts. It is simple matching: a text that contains the quotation, or one of
its numbers, may be where it comes from; one that says the same in other words is not found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from archon.errors import InvalidArgument
from archon.lineage.source import Source, SourceKind

_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class QuotedSource:
    """A source whose text contains the whole quotation, or some of its numbers, as the quotation writes them."""

    source: Source
    is_whole: bool
    numbers: tuple[str, ...] = ()


def sources_of_quote(quote: str, answer: Source, sources: Iterable[Source]) -> list[QuotedSource]:
    """Returns the sources whose text contains the quotation, whatever the spaces, the quotes and the case; or else
    numbers of it, equal as numbers (1,234.50 is 1234.5). Those with the whole quotation come first, then those with
    most of its numbers. Raises InvalidArgument if the answer does not contain the quotation, or it is empty."""
    wanted = _plain(quote)
    if not wanted:
        raise InvalidArgument("the quotation is empty")
    if wanted not in _plain(answer.text):
        raise InvalidArgument(f"the answer of {answer.label} does not contain this text")
    numbers = {_value(number): number for number in _NUMBER.findall(quote)}
    found = []
    for source in sources:
        if not source.text or source.kind is SourceKind.EDIT:
            continue
        is_whole = wanted in _plain(source.text)
        there = {_value(number) for number in _NUMBER.findall(source.text)}
        shared = tuple(written for value, written in numbers.items() if value in there)
        if is_whole or shared:
            found.append(QuotedSource(source, is_whole, shared))
    return sorted(found, key=lambda each: (not each.is_whole, -len(each.numbers)))


def _plain(text: str) -> str:
    """The text without the differences that a copy makes: spaces, line breaks as JSON writes them, quotes, case."""
    text = text.replace("\\n", " ").replace('\\"', '"')
    return " ".join(re.sub(r"[\"'`*_\u2018\u2019\u201c\u201d]", "", text).split()).casefold().rstrip(".")


def _value(number: str) -> str:
    """A number without separators of thousands and without zeros at its end."""
    whole, point, rest = number.rpartition(".")
    if not point:
        whole, rest = rest, ""
    digits = whole.replace(",", "").lstrip("0") or "0"
    rest = rest.rstrip("0")
    return f"{digits}.{rest}" if rest else digits
