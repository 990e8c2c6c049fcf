"""Sessions of users: each agent's history in one is loaded before a run and saved after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from archon_mesh.agent.state.agent_state import new_id
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.store import Change, Key, SessionStore


@dataclass(slots=True)
class _Open:
    """A history that a run works on: what it has changed and isn't saved yet."""

    key: Key
    version: int
    changes: list[Change] = field(default_factory=list)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)


class SessionManager:
    """One for all agents of a process. Runs of one agent in one session come one after the other here; where another
    process gets in between, the one that saves last fails and nothing of it is kept: Aborted, with the reason CONFLICT.
    """

    def __init__(self, store: SessionStore | str) -> None:
        """A store, or what one is made of; one that was made is closed with the manager."""
        self.store = SessionStore(store) if isinstance(store, str) else store
        self._own = isinstance(store, str)
        self._turns: dict[Key, asyncio.Lock] = {}
        self._waiting: dict[Key, int] = {}
        self._open: dict[str, _Open] = {}

    async def close(self) -> None:
        """Idempotent."""
        if self._own:
            await self.store.close()

    @asynccontextmanager
    async def open(self, user_id: str, session_id: str, agent_name: str) -> AsyncIterator[HistoryList]:
        """See Sessions. An empty session id makes a session. What came before an error is saved, too, so that the next
        run knows of it."""
        key = Key(user_id, session_id or new_id(), agent_name)
        async with self._turn(key):
            version, stored = await self.store.open(key)
            name = new_id()
            self._open[name] = _Open(key, version)
            history = HistoryList([one.message for one in stored], self, name, agent_name=agent_name)
            history.session_id = key.session_id
            try:
                yield history
            finally:
                try:
                    await asyncio.shield(self.flush(name))
                finally:
                    del self._open[name]
                    history.session_manager = None

    @asynccontextmanager
    async def _turn(self, key: Key) -> AsyncIterator[None]:
        lock = self._turns.setdefault(key, asyncio.Lock())
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:  # nobody needs it any more
                del self._turns[key], self._waiting[key]

    # What a history tells -------------------------------------------------------------------------------------------

    def appended(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        """See HistoryKeeper."""
        self._open[key].changes.append(Change(run_id, tuple(messages)))

    def replaced(self, key: str, run_id: str, messages: list[ChatMessage]) -> None:
        """See HistoryKeeper. What was to be saved before is overtaken."""
        self._open[key].changes = [Change(run_id, tuple(messages), replaces=True)]

    def undone(self, key: str, run_id: str) -> None:
        """See HistoryKeeper."""
        self._open[key].changes.append(Change(run_id, undoes=True))

    async def flush(self, key: str) -> None:
        """See HistoryKeeper."""
        one = self._open[key]
        async with one.saving:
            if not one.changes:
                return
            changes, one.changes = one.changes, []
            try:
                one.version = await self.store.save(one.key, one.version, changes)
            except BaseException:
                one.changes = [*changes, *one.changes]
                raise
