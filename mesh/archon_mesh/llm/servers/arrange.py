"""Messages in the order and with the ids that a server accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from archon_mesh.core.messages import OF_RESULT, ChatMessage
from archon_mesh.llm.servers.profile import ServerProfile

GO_ON: Final = "Continue."
"""The user's message behind an assistant's, for servers that refuse a conversation that ends with one."""

SEEN: Final = "I have the results."
"""The assistant's message between a tool's result and a user's message, for servers that want one there."""

ID_LENGTH: Final = 9

_NINE: Final = re.compile(r"[a-zA-Z0-9]{9}")
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def arrange(messages: Iterable[ChatMessage], profile: ServerProfile) -> list[ChatMessage]:
    """Returns the messages as the server of a profile takes them.

    A system message that may not stand where it is joins the user's message or the tool result before it, or becomes a
    user's message behind an assistant's. Templates such as Qwen's refuse a second system message; Mistral's refuse one
    at the end, and a user's message behind a tool result; Gemma's refuse two messages of a user in a row.

    Results of tools are texts: their files follow in a user's message behind the last result.
    """
    arranged: list[ChatMessage] = []
    for message in _files_behind_results(messages):
        if profile.system_messages == "any":
            arranged.append(message)
        elif (placed := _placed(message, arranged, profile.system_messages == "one")) is not None:
            arranged.append(placed)
    if profile.after_results == "reply":
        arranged = [*_with_replies(arranged)]
    if profile.last_role == "user" and arranged and arranged[-1].role == "assistant":
        arranged.append(ChatMessage("user", GO_ON))
    if profile.tool_ids == "nine":
        arranged = [_with_short_ids(message) for message in arranged]
    return arranged


def _placed(message: ChatMessage, arranged: list[ChatMessage], one: bool) -> ChatMessage | None:
    """Returns a message as one that may follow those before it; None if it has joined the last of them."""
    last = arranged[-1] if arranged else None
    if last is None or (message.role == "system" and last.role == "system" and not one):
        return message
    if message.role == "system":
        if last.role != "assistant":
            arranged[-1] = _joined(last, message)
            return None
        return replace(message, role="user")
    if one and message.role == last.role == "user" and message.name == last.name:
        arranged[-1] = _joined(last, message)
        return None
    return message


def _joined(message: ChatMessage, other: ChatMessage) -> ChatMessage:
    content = f"{message.content}\n\n{other.content}".strip()
    return replace(message, content=content, files=(*message.files, *other.files))


def _files_behind_results(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    names: dict[str, str] = {}
    waiting: list[ChatMessage] = []
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if waiting and message.role != "tool":
            yield _files_of_results(waiting, names)
            waiting = []
        if message.role == "tool" and message.files:
            waiting.append(message)
            message = replace(message, files=())
        yield message
    if waiting:
        yield _files_of_results(waiting, names)


def _files_of_results(results: Sequence[ChatMessage], names: Mapping[str, str]) -> ChatMessage:
    lines = ["Files of the results, in their order:"]
    for result in results:
        call_id = result.tool_call_id or ""
        lines += [f"{file.label} of {names.get(call_id, 'a tool')} ({call_id})" for file in result.files]
    files = [file for result in results for file in result.files]
    return ChatMessage("user", "\n".join(lines), metadata={OF_RESULT: True}, files=files)


def _with_replies(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    before = ""
    for message in messages:
        if before == "tool" and message.role == "user":
            yield ChatMessage("assistant", SEEN)
        yield message
        before = message.role


def _with_short_ids(message: ChatMessage) -> ChatMessage:
    if message.tool_call_id:
        return replace(message, tool_call_id=short_id(message.tool_call_id))
    if message.tool_calls:
        return replace(message, tool_calls=tuple(replace(call, id=short_id(call.id)) for call in message.tool_calls))
    return message


def short_id(call_id: str) -> str:
    """Returns an id of nine letters and digits for the id of a tool call, always the same one. Mistral refuses
    others."""
    if _NINE.fullmatch(call_id):
        return call_id
    number = int.from_bytes(sha256(call_id.encode(errors="surrogatepass")).digest())
    digits = []
    for _ in range(ID_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)
