"""Replies of the offline model to tasks of any kind: numbered requirements, or a summary of the material."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from archon_mesh.core.messages import SHARED_CONTEXT_PREFIX, ChatMessage
from archon_mesh.core.sentences import Sentence, split_sentences
from archon_mesh.core.shorten import shortened
from archon_mesh.core.words import ORDER_WORDS, QUESTION_WORDS, first_word

NOTICE: Final = "Offline model: plain text analysis of the messages given, no language model was asked."
MAX_EXCERPT: Final = 400
"""Characters of a message in a summary."""

_SUMMARY: Final = f"{NOTICE}\n\nI know no method for this task; this is the material I was given, shortened."
_ASKS_FOR_REQUIREMENTS: Final = re.compile(
    r"\b(?:extract|elicit|gather|collect|identify|analy[sz]e|list|find|derive|number|state|capture)s?\s+"
    r"(?:(?!for\b|per\b|components?\b)\w+\s+){0,4}?requirements?\b|\brequirements? (?:analyst|engineer)",
    re.IGNORECASE,
)
_DEMAND: Final = re.compile(
    r"\b(?:(?:must|shall|should)(?:n['\u2019]t)?|shan['\u2019]t|(?<!no )needs?|needed|ha(?:s|ve) to|ought to|"
    r"required|requires?|mandatory|wants?|wanted|would like|ensures?|make sure|may (?:not|only)|can ?not|"
    r"can['\u2019]t|is to be|are to be)\b",
    re.IGNORECASE,
)


def write_reply(messages: Sequence[ChatMessage]) -> str:
    """Returns the reply to a conversation: a notice that it is from this model, and the answer."""
    system = [message.content for message in messages if message.role == "system"]
    shared = [text for text in system if text.startswith(SHARED_CONTEXT_PREFIX)]
    prompt = next((text for text in system if not text.startswith(SHARED_CONTEXT_PREFIX)), "")
    query = next((message.content for message in reversed(messages) if message.role == "user"), "")
    if asks_for_requirements(prompt):
        return f"{NOTICE}\n\n{_requirements(query)}"
    lines = []
    for text in shared:
        head, _, answer = text.partition("\n")
        lines.append(f"From {head.removeprefix(SHARED_CONTEXT_PREFIX).rstrip(':')}: {_excerpt(answer)}")
    lines += [f"Task: {_excerpt(query)}"] if query else []
    lines += [f"Tool result: {_excerpt(message.content)}" for message in messages if message.role == "tool"]
    return "\n".join([_SUMMARY, *lines])


def asks_for_requirements(prompt: str) -> bool:
    """Whether a role's prompt asks for the requirements in a text."""
    return _ASKS_FOR_REQUIREMENTS.search(prompt) is not None


def find_demands(text: str) -> list[str]:
    """Returns the sentences that demand something, in order, or else those that begin with an imperative."""
    sentences = split_sentences(text)
    demands = [sentence.text for sentence in sentences if _is_demand(sentence)]
    return demands or [sentence.text for sentence in sentences if first_word(sentence.text) in ORDER_WORDS]


def _requirements(text: str) -> str:
    lines = [f"R{number}. {sentence}" for number, sentence in enumerate(find_demands(text), start=1)]
    return "\n".join(lines) or "No sentence of the text demands anything, so there is no requirement."


def _is_demand(sentence: Sentence) -> bool:
    first = first_word(sentence.text)
    if sentence.text.endswith("?") and first in QUESTION_WORDS:
        return False
    return (sentence.is_item and first in ORDER_WORDS) or _DEMAND.search(sentence.text) is not None


def _excerpt(text: str) -> str:
    if text.startswith(_SUMMARY):
        return "a summary of its material"
    return shortened(" ".join(text.removeprefix(NOTICE).split()), MAX_EXCERPT)
