"""Conversations: what a stateful role remembers of a session, one row for each turn.

A turn is stored in the step of its result, under the version after the one that its attempt was given. The first step
that stores a version wins; a step that comes second is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HISTORY_BYTES: Final = 1024 * 1024
"""Maximum bytes of a conversation that an attempt is given: the newest turns."""

HISTORY_TURNS: Final = 500
"""Maximum number of turns that an attempt is given."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn to store. `data` is an AssignTask in which only `history` is set, so that turns one after the other are
    the history as a task receives it."""

    tenant: str
    session_id: str
    role: str
    version: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Conversation:
    """The newest turns within HISTORY_BYTES, oldest first. `version` is that of the last turn, 0 before the first."""

    version: int
    turns: tuple[bytes, ...]


def conversation_of(rows: Sequence[tuple[int, bytes]]) -> Conversation:
    """Builds a conversation from (version, data), oldest first."""
    return Conversation(rows[-1][0] if rows else 0, tuple(data for _, data in rows))
