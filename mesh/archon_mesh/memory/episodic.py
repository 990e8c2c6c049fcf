"""Episodic memory: the messages of a session, in order. It survives restarts if its store does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import estimate_message
from archon_mesh.memory.sessions import SessionManager
from archon_mesh.memory.store import HistoryKey


class EpisodicMemory:
    """The messages of one agent in one session, stored together with the agent's history."""

    def __init__(self, sessions: SessionManager, user_id: str, session_id: str, agent_name: str = "agent") -> None:
        self._sessions = sessions
        self._key = HistoryKey(user_id, session_id, agent_name)

    async def append(
        self,
        role: Literal["system", "user", "assistant", "tool"],
        content: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Appends a message. It is durable when this method returns."""
        async with self._open() as history:
            history.append(ChatMessage(role, content, metadata=dict(metadata or {})))

    async def get_messages(self, limit: int | None = None, since: int = 0) -> list[ChatMessage]:
        """Returns the messages from index `since` on, counted from 0, in order; of these the last `limit`, or all.

        Raises InvalidArgument if `since` is not an index or `limit` is negative.
        """
        for name, value in (("since", since), ("limit", 0 if limit is None else limit)):
            if not isinstance(value, int) or value < 0:
                raise InvalidArgument(f"invalid {name} {value!r}: expected a number of messages")
        return [stored.message for stored in await self._sessions.store.messages(self._key, since=since, limit=limit)]

    async def get_recent(self, max_tokens: int) -> list[ChatMessage]:
        """Returns the last messages that have at most `max_tokens` in total, estimated, in order."""
        kept: list[ChatMessage] = []
        left = max_tokens
        for message in reversed(await self.get_messages()):
            left -= estimate_message(message)
            if left < 0:
                break
            kept.append(message)
        return kept[::-1]

    async def clear(self) -> None:
        """Deletes all messages."""
        async with self._open() as history:
            history.replace_all([])

    def _open(self) -> Any:
        return self._sessions.open(self._key.user_id, self._key.session_id, self._key.agent_name)
