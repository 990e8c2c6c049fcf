"""Recognises statements of a user that hold from then on, by rules for English."""

from __future__ import annotations

import re
from typing import Final

from archon_mesh.core.facts import sentences

MAX_PREFERENCES: Final = 5
"""Preferences that are taken from one message."""

MAX_CHARS: Final = 400
"""Characters of a preference; longer sentences do not count."""

PROMPT: Final = (
    "Which lasting preferences of the user, or facts about the user that matter for later tasks, does this message "
    "state? Answer with one short sentence per line, in the user's words, or with NONE. Leave out what concerns this "
    "task alone.\n\n"
)


def preferences(message: str) -> list[str]:
    """Returns the sentences of a message that state a lasting preference or a fact about its author."""
    found = [sentence for sentence in sentences(message) if len(sentence) <= MAX_CHARS and is_preference(sentence)]
    return list(dict.fromkeys(found))[:MAX_PREFERENCES]


def from_reply(reply: str) -> list[str]:
    """Returns the preferences that a model lists in its answer to PROMPT."""
    lines = [line.lstrip("-*0123456789. ").strip() for line in reply.splitlines()]
    return [line for line in lines if line and line.rstrip(".").upper() != "NONE" and len(line) <= MAX_CHARS][
        :MAX_PREFERENCES
    ]


def is_preference(sentence: str) -> bool:
    """Tells whether a sentence states a lasting preference: not a question, a condition, or a wish for this task."""
    if sentence.rstrip().endswith("?") or _HYPOTHETICAL.match(sentence) or _THIS_TASK.search(sentence):
        return False
    return any(pattern.search(sentence) for pattern in _PREFERENCES)


def same(one: str, other: str) -> bool:
    """Tells whether two preferences have the same words, whatever their case and punctuation."""
    return _WORD.findall(one.lower()) == _WORD.findall(other.lower())


_WORD: Final = re.compile(r"\w+")
_HYPOTHETICAL: Final = re.compile(
    r"\s*(?:if|suppose|imagine|assume|pretend|what|why|how|who|when|where|would|could|should|do|does|did|are|is|can)\b",
    re.I,
)
_THIS_TASK: Final = re.compile(
    r"\b(?:this time|just once|for now|(?:for )?this (?:task|once|one|trip|text)|today only|only today)\b"
    r"|\bI (?:only|just|always|never) (?:need|want|have|had|got|ask|asked|said|say|saw|heard|meant|mean|received"
    r"|thought|wondered|knew|wanted)\b"
    r"|\bI (?:(?:really|also|quite) )?(?:like|love|hate|prefer|dislike|don't like|do not like) "
    r"(?:it|this|that|these|those|your?|how|what)\b",
    re.I,
)
_HABIT: Final = r"(?:only|always|never|usually|generally|mostly|rarely)"
_PREFERENCES: Final = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b(?:I|we) {_HABIT} [a-z]{{2,}}",
        r"\b(?:I|we) (?:(?:really|strongly|much|also|would|generally|no longer) )*"
        r"(?:prefer|like|love|enjoy|hate|dislike|avoid|refuse)\b",
        r"\b(?:I|we) (?:do not|don't|cannot|can't|won't|will not|no longer) "
        r"(?:like|eat|drink|fly|travel|use|want|work|take|drive|smoke|stay|tolerate|accept|do)\b",
        r"\b(?:I am|I'm|we are|we're) (?:(?:a|an|also|strictly|highly|very) )*"
        r"(?:allerg|intoleran|vegetarian|vegan|pescatarian|diabetic|c(?:o)?eliac|left-handed|colou?r[- ]blind)",
        r"\b(?:my|our) (?:favou?rite|preferred|usual|default)\b",
        r"\bmy (?:name|birthday|home|address|e-?mail|phone number|time ?zone|language|employer|budget) (?:is|are)\b",
        r"\b(?:please )?(?:call|address) me\b",
        r"\bI (?:live|work) (?:in|at|for|as|from)\b",
        r"\b(?:from now on|in (?:the )?future|as a rule|by default|every time)\b",
        r"^\s*(?:please[, ]+)?remember\b(?: that| to|:| I| my)",
        r"^\s*(?:please[, ]+)?(?:always|never) [a-z]{2,}",
    )
)
