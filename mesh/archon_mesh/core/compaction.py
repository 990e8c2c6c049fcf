"""Shortens a conversation by whole rounds, so that a tool call is never separated from its result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from archon_mesh.core.messages import ChatMessage

MAX_FACTS = 4_000
"""Maximum number of characters of the facts that are appended to a summary."""

SUMMARY_PREFIX = "Summary of the conversation so far:\n"


def rounds(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """Splits messages into rounds: messages before a reply, the reply, and the results of its tool calls.

    Tool results without a reply before them form a round of their own.
    """
    result: list[list[ChatMessage]] = []
    has_reply = True
    for message in messages:
        if has_reply and message.role != "tool":
            result.append([])
            has_reply = False
        if not result:
            result.append([])
        result[-1].append(message)
        if message.role == "assistant":
            has_reply = True
    return result


def sliding_window(messages: Sequence[ChatMessage], window: int = 2) -> list[ChatMessage]:
    """Returns the last `window` rounds, preceded by older summaries, and by the last query if it is older."""
    all_rounds = rounds(messages)
    first_kept = len(all_rounds) - window if window > 0 else len(all_rounds)
    kept = [message for each in all_rounds[max(0, first_kept) :] for message in each]
    dropped = [message for each in all_rounds[: max(0, first_kept)] for message in each]
    before = [message for message in dropped if is_summary(message)]
    if not any(message.role == "user" for message in kept):
        before += [message for message in dropped if message.role == "user"][-1:]
    return [*before, *kept]


def without_tool_results(messages: Sequence[ChatMessage], window: int = 2) -> list[ChatMessage]:
    """Returns all messages, with tool results older than the last `window` rounds replaced by their length."""
    all_rounds = rounds(messages)
    first_kept = len(all_rounds) - window
    return [
        _omitted(message) if index < first_kept and message.role == "tool" else message
        for index, each in enumerate(all_rounds)
        for message in each
    ]


def broken_pairing(messages: Iterable[ChatMessage]) -> str:
    """Returns the first tool call without a result, or result without a call, in words; empty if there is none."""
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
    """Returns the message that replaces the summarised ones."""
    return ChatMessage("user", SUMMARY_PREFIX + text, metadata={"summary": True})


def is_summary(message: ChatMessage) -> bool:
    """Tells whether the message is a summary of older ones."""
    return message.metadata.get("summary") is True


def facts(messages: Iterable[ChatMessage]) -> list[str]:
    """Returns names, numbers, dates and URLs, in order of first occurrence, each once."""
    matches = (match for message in messages for match in _FACT.finditer(message.content))
    return list(dict.fromkeys(match.group().rstrip(".,;:)") for match in matches))


def with_facts(text: str, messages: Iterable[ChatMessage]) -> str:
    """Returns the summary, followed by the facts that it omits; the latest facts take precedence."""
    missing = [fact for fact in facts(messages) if fact not in text]
    if not missing:
        return text
    listed = ""
    for fact in reversed(missing):
        if len(listed) + len(fact) > MAX_FACTS:
            break
        listed = f"{fact}; {listed}" if listed else fact
    return f"{text}\n\nAlso mentioned: {listed}"


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


def _omitted(message: ChatMessage) -> ChatMessage:
    note = f"[a result of {len(message.content):,} characters, left out]"
    return message if len(message.content) <= len(note) else replace(message, content=note)
