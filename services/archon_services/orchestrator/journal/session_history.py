"""Conversations: the memory of a stateful role about a session, one row for each turn.

A turn is stored in the step of its result, under the version after the one that its attempt was given. The first step
that stores a version wins; a step that comes second is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from archon.errors import DataLoss

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
    """The newest turns within HISTORY_BYTES, oldest first. `version` is the last turn's, 0 before the first."""

    version: int
    turns: tuple[bytes, ...]


def turn_checksum(turn: Turn) -> int:
    """Returns the checksum to store with a turn, 32 bits."""
    return _checksum(turn.tenant, turn.session_id, turn.role, turn.version, turn.data)


def checked_conversation(tenant: str, session_id: str, role: str, rows: Iterable[Sequence[Any]]) -> Conversation:
    """Builds a conversation from (version, data, checksum), oldest first. Rows of versions before the checksum have
    None. Raises DataLoss if a row is not as it was written."""
    version, turns = 0, []
    for version, data, checksum in rows:
        if not isinstance(data, bytes) or (
            checksum is not None and checksum != _checksum(tenant, session_id, role, version, data)
        ):
            raise DataLoss(
                f"turn {version} of {role!r} in session {session_id!r} is damaged in the journal",
                metadata={"session_id": session_id, "role": role},
            )
        turns.append(data)
    return Conversation(version, tuple(turns))


def _checksum(tenant: str, session_id: str, role: str, version: int, data: bytes) -> int:
    key = f"{tenant}/{session_id}/{role}/{version}".encode("utf-8", "surrogatepass")
    return crc32(data, crc32(key))
