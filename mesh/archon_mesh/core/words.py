"""Words of a text as searches and comparisons see them: lower case, no accents, no English function words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")

_FUNCTION_WORDS: Final = """
    a about after again all also am an and any are as at be because been before being between both but by can could did
    do does doing down during each for from further get give had has have having he her here hers him his how i if in
    into is it its itself just me more most must my no nor not now of off on once only or other our out over own please
    s same shall she should so some such t tell than that the their them then there these they this those through to too
    under until up us very was we were what when where which while who whom whose why will with would you your
    """
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""Words that say nothing about the topic of a text."""

_ORDER_WORDS: Final = """
    add allow answer ask avoid book build buy calculate call check choose collect compare compute convert copy count
    create delete deliver describe design draw edit estimate evaluate explain export fetch filter find generate get give
    go identify implement import keep learn let limit list load log look make manage merge monitor move never notify
    order pay plan play prepare prevent print produce provide publish read record register remember remove rename
    replace report research reserve review run save say search see select send set share show solve sort start stop
    store suggest summarise summarize support take tell test think translate turn update upload use visit work write
    """
ORDER_WORDS: Final = frozenset(_ORDER_WORDS.split())
"""Words that an order begins with."""

_QUESTION_WORDS: Final = "are did do does has have how is may must shall should what when where which who why"
QUESTION_WORDS: Final = frozenset(_QUESTION_WORDS.split())
"""Words that a question begins with."""

MAX_WORD: Final = 40
"""Characters of a text in which its first word is looked for."""

MAX_WORDS: Final = 64
"""Words of a query by which is searched."""


def folded(text: str) -> str:
    """Returns the text in lower case without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def words(text: str) -> list[str]:
    """Returns all words, folded, without a possessive s."""
    found = _WORD.findall(folded(text))
    return [_without_possessive(word) for word in found] if "'" in text or "\u2019" in text else found


def first_word(text: str) -> str:
    """Returns the first word of a text, folded, or an empty text if there is none near its start."""
    return next(iter(words(text[:MAX_WORD])), "")


def content_words(text: str) -> list[str]:
    """Returns the words that are not function words, each once; all words if there is no other."""
    every = list(dict.fromkeys(words(text)))
    return ([word for word in every if word not in FUNCTION_WORDS] or every)[:MAX_WORDS]


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Removes the common English endings, so that forms of a word are mostly equal. Not a word of any language."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] in "ey" else word


def stems(text: str) -> set[str]:
    """Returns the stems of all words."""
    return {stem(word) for word in words(text)}


def topic_stems(text: str) -> set[str]:
    """Returns the stems of the words that tell the subject of a text: no function words, no numbers."""
    return {stem(word) for word in words(text) if word not in FUNCTION_WORDS and not word.isdigit()}


def ngrams(word: str, sizes: Iterable[int]) -> Iterator[str]:
    """Yields the character n-grams of a word between marks of its ends."""
    marked = f"<{word}>"
    for size in sizes:
        for start in range(len(marked) - size + 1):
            yield marked[start : start + size]


_ENDINGS: Final = (
    ("iveness", ""),
    ("fulness", ""),
    ("ations", ""),
    ("ation", ""),
    ("ments", ""),
    ("ment", ""),
    ("ingly", ""),
    ("ness", ""),
    ("ances", ""),
    ("ance", ""),
    ("ences", ""),
    ("ence", ""),
    ("ions", ""),
    ("ings", ""),
    ("ion", ""),
    ("ing", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("ers", ""),
    ("ier", "y"),
    ("est", ""),
    ("ed", ""),
    ("er", ""),
    ("es", ""),
    ("ly", ""),
    ("s", ""),
)


def _without_possessive(word: str) -> str:
    for mark in ("'s", "\u2019s"):
        if word.endswith(mark):
            return word[: -len(mark)]
    return word.replace("'", "").replace("\u2019", "")
