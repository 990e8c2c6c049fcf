"""Sessions of users: the history of each agent in a session is loaded before a run and saved after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from archon_mesh.agent.ids import new_id
from archon_mesh.agent.state.call_slots import CallSlots
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.store import HistoryChange, HistoryKey, SessionStore


@dataclass(slots=True)
class _OpenHistory:
    """A history in use by a run, with its unsaved changes."""

    key: HistoryKey
    version: int
    changes: list[HistoryChange] = field(default_factory=list)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)


class SessionManager:
    """Manages sessions for all agents of a process.

    Runs of one agent in one session are serialised within this process. If another process saves in between, the later
    save raises Aborted with the reason CONFLICT, and nothing of it is stored.
    """

    def __init__(self, store: SessionStore | str) -> None:
        """`store` is a SessionStore, or the location of one, which the manager then closes."""
        self.store = SessionStore(store) if isinstance(store, str) else store
        self._owns_store = isinstance(store, str)
        self._locks: dict[HistoryKey, CallSlots] = {}
        self._waiting: dict[HistoryKey, int] = {}
        self._open: dict[str, _OpenHistory] = {}

    async def close(self) -> None:
        """Closes the store if the manager created it. Idempotent."""
        if self._owns_store:
            await self.store.close()

    @asynccontextmanager
    async def open(self, user_id: str, session_id: str, agent_name: str) -> AsyncIterator[HistoryList]:
        """Yields the history of an agent in a session. An empty session id creates a session.

        Messages before an error are saved too, so that the next run sees them.
        """
        key = HistoryKey(user_id, session_id or new_id(), agent_name)
        async with self._exclusive(key):
            version, stored = await self.store.open(key)
            history_key = new_id()
            self._open[history_key] = _OpenHistory(key, version)
            messages = [each.message for each in stored]
            history = HistoryList(messages, self, history_key, agent_name=agent_name)
            history.session_id = key.session_id
            try:
                yield history
            finally:
                try:
                    await asyncio.shield(self.flush(history_key))
                finally:
                    del self._open[history_key]
                    history.session_manager = None

    @asynccontextmanager
    async def _exclusive(self, key: HistoryKey) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, CallSlots(f"the session {key.session_id} of {key.agent_name}"))
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with lock.taken():
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._locks[key], self._waiting[key]

    # HistorySink -----------------------------------------------------------------------------------------------------

    def appended(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        self._open[key].changes.append(HistoryChange(run_id, tuple(messages)))

    def replaced(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        self._open[key].changes = [HistoryChange(run_id, tuple(messages), replaces=True)]

    def undone(self, key: str, run_id: str) -> None:
        self._open[key].changes.append(HistoryChange(run_id, undoes=True))

    async def flush(self, key: str) -> None:
        history = self._open.get(key)
        if history is None:
            return  # closed, and saved
        async with history.saving:
            if not history.changes:
                return
            changes, history.changes = history.changes, []
            try:
                history.version = await self.store.save(history.key, history.version, changes)
            except BaseException:
                history.changes = [*changes, *history.changes]
                raise
