"""The facts that a summary must keep: names, numbers, dates, URLs and explicit instructions, found by rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from archon_mesh.core.messages import ChatMessage

MAX_FACTS = 4_000
"""Maximum number of characters that are appended to a summary."""

MAX_SENTENCE = 160
"""Maximum number of characters of a sentence that is appended; of a longer one, its facts alone are."""

_MIN_SUBSTRING = 4
"""Characters from which on a fact counts as present within a longer word."""


def sentences(text: str) -> list[str]:
    """Returns the sentences and lines of a text, without the marks of a list."""
    parts = (part.strip().removeprefix("- ") for part in _END.split(text))
    return [part for part in parts if part]


def facts_of(text: str) -> list[str]:
    """Returns names, numbers, dates and URLs of a text, in order of first occurrence, each once."""
    return list(dict.fromkeys(match.group().rstrip(".,;:)") for match in _FACT.finditer(text)))


def facts(messages: Iterable[ChatMessage]) -> list[str]:
    """Returns names, numbers, dates and URLs, in order of first occurrence, each once."""
    return list(dict.fromkeys(fact for message in messages for fact in facts_of(message.content)))


def instructions(messages: Iterable[ChatMessage]) -> list[str]:
    """Returns the sentences of the user with instructions for always, never or from now on."""
    return [
        sentence
        for message in messages
        if message.role == "user"
        for sentence in sentences(message.content)
        if _is_instruction(sentence)
    ]


def with_facts(text: str, messages: Iterable[ChatMessage], limit: int = MAX_FACTS) -> str:
    """Returns the summary, followed by the sentences whose facts or instructions it omits, in `limit` characters.

    Instructions come first into this room, then the user's statements; of each the latest.
    """
    missing: dict[str, int] = {}
    for rank, line in _missing(text, messages):
        missing[line] = min(rank, missing.pop(line, rank))
    lines = list(missing)
    newest_first = lines[::-1]
    kept: set[str] = set()
    room = limit
    for line in sorted(newest_first, key=missing.__getitem__):
        if len(line) + 3 <= room:
            kept.add(line)
            room -= len(line) + 3
    return "\n".join([text, "", "Also said:", *(f"- {line}" for line in lines if line in kept)]) if kept else text


def _missing(text: str, messages: Iterable[ChatMessage]) -> Iterator[tuple[int, str]]:
    """Yields the lines that the text lacks, with their rank: instructions, the user's facts, other facts."""
    present = set(facts_of(text))
    for message in messages:
        for sentence in sentences(message.content):
            missing = [fact for fact in facts_of(sentence) if not _is_present(fact, text, present)]
            is_user = message.role == "user"
            if is_user and _is_instruction(sentence):
                if sentence not in text:
                    yield 0, sentence[:MAX_SENTENCE]
            elif missing:
                line = sentence if len(sentence) <= MAX_SENTENCE else "; ".join(missing)[:MAX_SENTENCE]
                yield 2 - is_user, line


def _is_present(fact: str, text: str, present: set[str]) -> bool:
    return fact in present or (len(fact) >= _MIN_SUBSTRING and fact in text)


def _is_instruction(sentence: str) -> bool:
    return not sentence.endswith("?") and _INSTRUCTION.search(sentence) is not None


_END = re.compile(r"(?<=[.!?])\s+|\n+")
_INSTRUCTION = re.compile(
    r"\b(?:always|never|must(?: not)?|do not|don't|from now on|make sure|remember (?:that|to)|"
    r"instead of|as of today|at (?:least|most)|no longer)\b",
    re.I,
)

# URLs; dates as 2024-05-17 or 17 May 2024; numbers; two or more words in capitals, or one within a sentence.
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_FACT = re.compile(
    r"https?://[^\s<>\"')\]]+"
    r"|\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?"
    rf"|\d{{1,2}}\.? {_MONTH} \d{{4}}|{_MONTH} \d{{1,2}}, \d{{4}}"
    r"|[$€£]?\d[\d.,]*\d%?|[$€£]?\d%?"
    r"|[A-Z][\w-]+(?: [A-Z][\w-]+)+"
    r"|(?<=[a-z,] )[A-Z][\w-]+"
)
