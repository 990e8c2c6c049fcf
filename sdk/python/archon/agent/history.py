"""Session history of a stateful role: conversion, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon.agent.values import MAX_TURN, HistoryMessage
from archon.api.agent.v1 import agent_pb2
from archon.errors import FrameTooLarge
from archon.surrogates import without_surrogates
from archon.types.part import Part, add_parts
from archon.wire import is_text, text_of

MAX_CHARS: Final = 60_000
"""Characters of a question or an answer that are remembered by default: in any script two are below MAX_TURN."""


def history_from_proto(proto: agent_pb2.HistoryMessage) -> HistoryMessage:
    """The message, with texts and JSON values joined in `text` and all other parts in `parts`."""
    others = tuple(Part.from_proto(part) for part in proto.parts if not is_text(part))
    return HistoryMessage(proto.role, text_of(proto.parts), others, dict(proto.metadata))


def history_to_proto(message: HistoryMessage) -> agent_pb2.HistoryMessage:
    """The message, with `text` as its last part."""
    proto = agent_pb2.HistoryMessage(role=message.role, metadata=message.metadata)
    add_parts(proto.parts, message.parts)
    if message.text:
        proto.parts.add(text=without_surrogates(message.text))
    return proto


def turn_to_proto(turn: Sequence[HistoryMessage]) -> list[agent_pb2.HistoryMessage]:
    """The messages that one answer adds. Raises FrameTooLarge above 512 KiB."""
    messages = [history_to_proto(message) for message in turn]
    if (size := sum(message.ByteSize() for message in messages)) > MAX_TURN:
        raise FrameTooLarge(f"a turn of {size:,} bytes is too large for the session history; the limit is {MAX_TURN:,}")
    return messages


def shortened(text: str) -> str:
    """The text, with its middle left out if it exceeds MAX_CHARS."""
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"
