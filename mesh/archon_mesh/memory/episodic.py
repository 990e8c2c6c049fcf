"""Episodic memory: what was said in a session, in order. It survives restarts where its store does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import estimate_tokens
from archon_mesh.memory.sessions import SessionManager
from archon_mesh.memory.store import Key


class EpisodicMemory:
    """Of one agent in one session; the same that the agent's history is kept in."""

    def __init__(self, sessions: SessionManager, user_id: str, session_id: str, agent_name: str = "agent") -> None:
        self._sessions = sessions
        self._key = Key(user_id, session_id, agent_name)

    async def append(
        self,
        role: Literal["system", "user", "assistant", "tool"],
        content: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """One more message; durable when this returns."""
        async with self._opened() as history:
            history.append(ChatMessage(role, content, metadata=dict(metadata or {})))

    async def get_messages(self, limit: int | None = None, since: float = 0.0) -> list[ChatMessage]:
        """In order; of more than `limit` the last; from `since` (wall seconds) on."""
        return [one.message for one in await self._sessions.store.messages(self._key, since=since, limit=limit)]

    async def get_recent(self, max_tokens: int) -> list[ChatMessage]:
        """The last messages that have at most so many tokens together, by estimate; in order."""
        kept: list[ChatMessage] = []
        left = max_tokens
        for message in reversed(await self.get_messages()):
            left -= estimate_tokens(message.content)
            if left < 0:
                break
            kept.append(message)
        return kept[::-1]

    async def clear(self) -> None:
        """Forgets all of it."""
        async with self._opened() as history:
            history.replace_all([])

    def _opened(self) -> Any:
        return self._sessions.open(self._key.user_id, self._key.session_id, self._key.agent_name)
