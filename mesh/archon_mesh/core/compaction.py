"""A conversation made shorter: by rounds, so that no call is ever parted from its result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from archon_mesh.core.messages import ChatMessage

MAX_FACTS = 4_000
"""Characters of facts that are put behind a summary."""

SUMMARY_PREFIX = "Summary of the conversation so far:\n"


def rounds(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """A round is what was asked, and one reply with the results of its calls. Whatever comes first has a round, too."""
    made: list[list[ChatMessage]] = []
    replied = True
    for message in messages:
        if replied and message.role != "tool":
            made.append([])
            replied = False
        if not made:
            made.append([])
        made[-1].append(message)
        if message.role == "assistant":
            replied = True
    return made


def sliding_window(messages: Sequence[ChatMessage], window: int = 2) -> list[ChatMessage]:
    """The last `window` rounds; before them what was asked last, where that is older, and summaries."""
    every = rounds(messages)
    kept = [message for one in every[-window:] for message in one] if window > 0 else []
    dropped = [message for one in every[: len(every) - window] for message in one] if window > 0 else list(messages)
    before = [message for message in dropped if is_summary(message)]
    if not any(message.role == "user" for message in kept):
        before += [message for message in dropped if message.role == "user"][-1:]
    return [*before, *kept]


def without_tool_results(messages: Sequence[ChatMessage], window: int = 2) -> list[ChatMessage]:
    """All messages, but of results older than the last `window` rounds only how long they were."""
    every = rounds(messages)
    recent = len(every) - window
    return [
        _left_out(message) if number < recent and message.role == "tool" else message
        for number, one in enumerate(every)
        for message in one
    ]


def parted(messages: Iterable[ChatMessage]) -> str:
    """What is wrong with it as a conversation: a call without its result, a result without its call; empty: nothing."""
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                return f"the result of call {message.tool_call_id} has no call before it"
            open_calls.discard(message.tool_call_id or "")
            continue
        if open_calls:
            break
        open_calls = {call.id for call in message.tool_calls}
    return f"call {min(open_calls)} has no result" if open_calls else ""


def summary(text: str) -> ChatMessage:
    """The message that stands for what it sums up."""
    return ChatMessage("user", SUMMARY_PREFIX + text, metadata={"summary": True})


def is_summary(message: ChatMessage) -> bool:
    """Whether it stands for older ones."""
    return message.metadata.get("summary") is True


def facts(messages: Iterable[ChatMessage]) -> list[str]:
    """Names, numbers, dates and URLs, in the order in which they were said, each once."""
    found: dict[str, None] = {}
    for message in messages:
        for match in _FACT.finditer(message.content):
            found.setdefault(match.group().rstrip(".,;:)"))
    return list(found)


def with_facts(text: str, messages: Iterable[ChatMessage]) -> str:
    """The summary, and behind it the facts that it leaves out."""
    missing = [fact for fact in facts(messages) if fact not in text]
    if not missing:
        return text
    told = ""
    for fact in reversed(missing):  # what was said last counts most
        if len(told) + len(fact) > MAX_FACTS:
            break
        told = f"{fact}; {told}" if told else fact
    return f"{text}\n\nAlso mentioned: {told}"


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


def _left_out(message: ChatMessage) -> ChatMessage:
    said = f"[a result of {len(message.content):,} characters, left out]"
    return message if len(message.content) <= len(said) else replace(message, content=said)
