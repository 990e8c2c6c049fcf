"""Finds contradictions between two short statements, by rules for English: no model, the same result each time.

A statement makes claims: about a subject, by a predicate, a value. Two statements contradict each other if

- one denies the claim of the other ("Ana likes fish", "Ana does not like fish");
- they give a predicate that has one value at a time two values ("Ana lives in Rome", "Ana lives in Oslo");
- they have the same words but for their numbers ("The server has 8 cores", "The server has 16 cores").

A value that only adds words to another one ("Rome", "Rome, Italy") is no other value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from archon_mesh.core.facts import sentences
from archon_mesh.core.words import folded, stem, words

MAX_CHARS: Final = 400
"""Characters of a sentence that is compared."""

MAX_SENTENCES: Final = 5
"""Sentences of a text that are compared."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a sentence. `value` holds the stems of its words. `single`: the predicate has one value at a time."""

    subject: frozenset[str]
    predicate: str
    value: frozenset[str]
    denied: bool = False
    single: bool = False


def contradiction(one: str, other: str) -> str:
    """Returns why two texts contradict each other, in a clause; empty if no rule says that they do."""
    for left in _statements(one):
        for right in _statements(other):
            if reason := _between(left, right):
                return reason
    return ""


def may_contradict(text: str) -> bool:
    """Whether a text has a claim or a number that a rule can compare."""
    return any(_NUMBER.search(each) or any(claims(each)) for each in _statements(text))


def claims(sentence: str) -> Iterator[Claim]:
    """Yields the attributes that a sentence says something to have, as stems; nothing if its form is not one of the
    known ones."""
    plain = _plain(sentence)
    for pattern, predicate in _ATTRIBUTES:
        if match := pattern.match(plain):
            subject = _stems(f"{match['owner'] or ''} {match['name']}")
            if subject and (value := _stems(match["value"])):
                denied = bool(_NOT.search(match["verb"]))
                yield Claim(subject, predicate, value, denied, single=not denied)
            return
    if (match := _VERB.match(plain)) is None:
        return
    verb, denied = match["verb"], any(match[group] for group in ("not", "never", "after"))
    predicate, opposite, single = _PREDICATES[_verb_of(verb)]
    subject, value = _stems(match["subject"]), _stems(match["value"])
    if subject and value and not subject & _UNKNOWN:
        denied ^= opposite
        yield Claim(subject, predicate, value, denied, single=single and not denied)


def _between(left: str, right: str) -> str:
    for mine in claims(left):
        for theirs in claims(right):
            if mine.subject != theirs.subject or mine.predicate != theirs.predicate:
                continue
            if mine.denied != theirs.denied:
                if mine.value == theirs.value:
                    return "one denies the other"
            elif mine.single and theirs.single and not (mine.value <= theirs.value or theirs.value <= mine.value):
                return f"two values of {_NAMES.get(mine.predicate, 'the same attribute')}"
    numbers = _NUMBER.findall(left), _NUMBER.findall(right)
    if all(numbers) and len(numbers[0]) == len(numbers[1]) and sorted(numbers[0]) != sorted(numbers[1]):
        mine_words, their_words = (_NUMBER.sub(" ", each) for each in (left, right))
        if len(words(mine_words)) >= LEAST_WORDS and words(mine_words) == words(their_words):
            return "the same words with other numbers"
    return ""


LEAST_WORDS: Final = 3
"""Words besides the numbers that two statements must share."""


def _statements(text: str) -> list[str]:
    found = [each for each in sentences(text[: MAX_CHARS * MAX_SENTENCES]) if len(each) <= MAX_CHARS]
    return [each for each in found if not each.rstrip().endswith("?") and not _UNSURE.match(each)][:MAX_SENTENCES]


def _plain(sentence: str) -> str:
    text = folded(sentence).replace("\u2019", "'").strip().rstrip(".!;")
    for contraction, words_of_it in _CONTRACTIONS:
        text = contraction.sub(words_of_it, text)
    return " ".join(text.split())


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words(text) if word not in _ARTICLES)


def _verb_of(verb: str) -> str:
    return next(name for name in _PREDICATES if re.fullmatch(_FORMS[name], verb))


_NUMBER: Final = re.compile(r"(?<![\w.])\d[\d.,:]*(?<![.,:])")
_NOT: Final = re.compile(r"\b(?:not|never|no longer)\b")
_UNSURE: Final = re.compile(r"\s*(?:if|suppose|imagine|assume|perhaps|maybe|when|unless|until)\b", re.I)
_ARTICLES: Final = frozenset(
    ["a", "an", "the", "now", "currently", "really", "very", "also", "strictly", "still", "always"]
)
_UNKNOWN: Final = frozenset(
    map(stem, ["it", "this", "that", "these", "those", "he", "she", "they", "there", "here", "what", "who", "which"])
)
_CONTRACTIONS: Final = tuple(
    (re.compile(pattern), words_of_it)
    for pattern, words_of_it in (
        (r"\bcan't\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\bi'm\b", "i am"),
        (r"\b(you|we|they)'re\b", r"\1 are"),
        (r"\b(he|she|it|that)'s\b", r"\1 is"),
        (r"\bcannot\b", "can not"),
        (r"\bno longer (\w+)", r"never \1"),
    )
)
_FORMS: Final = {
    "like": r"likes?|loves?|enjoys?",
    "dislike": r"dislikes?|hates?|avoids?|refuses?",
    "live": r"lives? (?:in|at)|resides? in",
    "work": r"works? (?:at|for)|is employed (?:at|by)",
    "prefer": r"prefers?",
    "eat": r"eats?|drinks?|smokes?|uses?|takes?|wants?|has|have|owns?|speaks?|supports?|works? (?:in|on|with)",
    "be": r"is|are|am",
}
_PREDICATES: Final = {
    # name: (predicate, whether it is the opposite of that predicate, whether it has one value at a time)
    "dislike": ("like", True, False),
    "like": ("like", False, False),
    "live": ("live", False, True),
    "work": ("work", False, True),
    "prefer": ("prefer", False, False),
    "eat": ("do", False, False),
    "be": ("be", False, False),
}
_NAMES: Final = {"live": "the same place of living", "work": "the same employer"}
_VERB: Final = re.compile(
    r"(?P<subject>(?:[\w-]+ ){0,4}?[\w-]+) "
    r"(?:(?:do|does|can|will) )?(?P<never>never )?(?P<not>not )?"
    r"(?P<verb>" + "|".join(_FORMS[name] for name in _PREDICATES) + r")(?P<after> not| never)? (?P<value>.+)"
)
_IS: Final = r"(?P<verb>(?:is|are|was set to|equals)(?: now)?(?: not| never)?) (?P<value>.+)"
_ATTRIBUTES: Final = tuple(
    (re.compile(pattern), "is")
    for pattern in (
        r"(?P<owner>[\w-]+(?: [\w-]+)?)'s (?P<name>[\w-]+(?: [\w-]+){0,2}) " + _IS,
        r"(?P<owner>my|our) (?P<name>[\w-]+(?: [\w-]+){0,2}) " + _IS,
        r"the (?P<name>[\w-]+(?: [\w-]+)?) of (?P<owner>(?:the )?[\w-]+(?: [\w-]+)?) " + _IS,
        r"(?P<name>[\w.-]+(?: [\w.-]+){0,2})(?P<owner>)(?P<verb>:| =) (?P<value>\S+(?: \S+){0,2})$",
    )
)
