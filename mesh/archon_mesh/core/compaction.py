"""Shortens a conversation by whole rounds, so that a tool call is never separated from its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from archon_mesh.core.facts import sentences
from archon_mesh.core.messages import ChatMessage

MAX_EXTRACT = 2_000
"""Maximum number of characters of an extract."""

MAX_LINE = 100
"""Maximum number of characters of a message in an extract."""

LEFT_OUT = "left_out_files"
"""The key of a note's metadata with the labels of the files that it names."""

MAX_LABELS = 20
"""Maximum number of files that a note names; the newest are."""

SUMMARY_PREFIX = "[Earlier conversation summarized: "
SUMMARY_SUFFIX = "]"


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
    """Returns the last `window` rounds, preceded by older summaries, by a note that names the files of the omitted
    messages, and by the last query if it is older."""
    all_rounds = rounds(messages)
    first_kept = len(all_rounds) - window if window > 0 else len(all_rounds)
    kept = [message for each in all_rounds[max(0, first_kept) :] for message in each]
    dropped = [message for each in all_rounds[: max(0, first_kept)] for message in each]
    before = [message for message in dropped if is_summary(message) and not _is_note(message)]
    query: list[ChatMessage] = []
    if not any(message.role == "user" for message in kept):
        query = [message for message in dropped if message.role == "user" and not _is_note(message)][-1:]
    stay = {id(message) for message in (*before, *query)}
    if labels := left_out_labels(message for message in dropped if id(message) not in stay):
        before.append(_note(labels))
    return [*before, *(message for message in query if not is_summary(message)), *kept]


def left_out_labels(messages: Iterable[ChatMessage]) -> list[str]:
    """Returns the labels of the files in messages, and of those that notes among them name: the newest, in order."""
    labels: list[str] = []
    for message in messages:
        named = message.metadata.get(LEFT_OUT)
        labels += [str(label) for label in named] if isinstance(named, (list, tuple)) else []
        labels += [file.label for file in message.files]
    return labels[-MAX_LABELS:]


def _note(labels: Sequence[str]) -> ChatMessage:
    return ChatMessage("user", _named(labels), metadata={"summary": True, LEFT_OUT: list(labels)})


def _is_note(message: ChatMessage) -> bool:
    return LEFT_OUT in message.metadata and not message.content.startswith(SUMMARY_PREFIX)


def _named(labels: Sequence[str]) -> str:
    return f"[Files of earlier messages, left out: {', '.join(labels)}]"


def without_tool_results(messages: Sequence[ChatMessage], window: int = 2) -> list[ChatMessage]:
    """Returns all messages, with tool results older than the last `window` rounds replaced by their length and the
    labels of their files."""
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


def summary(text: str, labels: Sequence[str] = ()) -> ChatMessage:
    """Returns the message that replaces the summarised ones, and names their files by their labels."""
    named = {LEFT_OUT: list(labels)} if labels else {}
    text = f"{text}\n{_named(labels)}" if labels else text
    return ChatMessage("user", f"{SUMMARY_PREFIX}{text}{SUMMARY_SUFFIX}", metadata={"summary": True, **named})


def summary_text(message: ChatMessage) -> str:
    """Returns the text of a summary without its mark; the content of any other message."""
    return (
        message.content.removeprefix(SUMMARY_PREFIX).removesuffix(SUMMARY_SUFFIX)
        if is_summary(message)
        else message.content
    )


def is_summary(message: ChatMessage) -> bool:
    """Tells whether the message is a summary of older ones."""
    return message.metadata.get("summary") is True


def extract(messages: Iterable[ChatMessage]) -> str:
    """Returns the first sentence of each query and reply, as far as MAX_EXTRACT allows; the latest ones come first into
    this room."""
    lines: list[str] = []
    room = MAX_EXTRACT
    for message in reversed(list(messages)):
        first = next(iter(sentences(message.content)), "")[:MAX_LINE]
        first = " ".join(filter(None, (first, *left_out_labels([message]))))
        line = f"{message.role}: {first}"
        if not first or is_summary(message) or message.role not in ("user", "assistant"):
            continue
        if len(line) >= room:
            break
        lines.insert(0, line)
        room -= len(line) + 1
    return "\n".join(lines)


def _omitted(message: ChatMessage) -> ChatMessage:
    note = f"[a result of {len(message.content):,} characters, left out]"
    if message.files:
        note = f"{note[:-1]} with {', '.join(file.label for file in message.files)}]"
    elif len(message.content) <= len(note):
        return message
    return replace(message, content=note, files=())
