"""What a stateful role remembers, on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon.agent.values import MAX_TURN, HistoryMessage
from archon.api.agent.v1 import agent_pb2
from archon.errors import FrameTooLarge
from archon.wire import text_of, without_surrogates

MAX_CHARS: Final = 60_000
"""Of a question or an answer, where nobody says what is to be remembered: two are below MAX_TURN in any script."""


def history_from_proto(said: agent_pb2.HistoryMessage) -> HistoryMessage:
    """Its text parts as `text`, all others as `parts`."""
    others = tuple(part for part in said.parts if part.WhichOneof("content") != "text")
    return HistoryMessage(said.role, text_of(said.parts), others, dict(said.metadata))


def history_to_proto(said: HistoryMessage) -> agent_pb2.HistoryMessage:
    """One message."""
    message = agent_pb2.HistoryMessage(role=said.role, parts=said.parts, metadata=said.metadata)
    if said.text:
        message.parts.add(text=without_surrogates(said.text))
    return message


def turn_to_proto(turn: Sequence[HistoryMessage]) -> list[agent_pb2.HistoryMessage]:
    """What one answer adds. Raises FrameTooLarge above 512 KiB."""
    messages = [history_to_proto(one) for one in turn]
    if (size := sum(one.ByteSize() for one in messages)) > MAX_TURN:
        raise FrameTooLarge(f"a turn of {size:,} bytes to remember; at most {MAX_TURN:,} are kept of one")
    return messages


def shortened(text: str) -> str:
    """With its middle left out where it is longer than what is kept of one message."""
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"
