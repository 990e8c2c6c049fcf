"""The messages of an agent: a list that tells a session what is appended to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

from archon_mesh.core.messages import ChatMessage


class HistoryKeeper(Protocol):
    """Where the changes of a history go. Nothing here waits: what is told is saved by and by, at the latest by
    `HistoryList.flush`."""

    def appended(self, key: str, run_id: str, messages: list[ChatMessage]) -> None: ...

    def replaced(self, key: str, run_id: str, messages: list[ChatMessage]) -> None: ...

    def undone(self, key: str, run_id: str) -> None: ...

    async def flush(self, key: str) -> None: ...


class Sessions(Protocol):
    """What an agent needs of a session manager."""

    def open(self, user_id: str, session_id: str, agent_name: str) -> AbstractAsyncContextManager[HistoryList]:
        """The agent's history in a session, which is made where it isn't there: loaded when the block begins, saved
        when it ends. Whoever opens the same one waits."""
        ...


class HistoryList(list[ChatMessage]):
    """A list of messages. `append`, `extend` and `+=` are saved in the session, `replace_all` replaces what is saved,
    `undo` takes a run back; assigning or deleting items stays here. Without a session manager it is a list."""

    def __init__(
        self,
        messages: Iterable[ChatMessage] = (),
        session_manager: HistoryKeeper | None = None,
        history_key: str = "",
        run_id: str = "",
        root_run_id: str = "",
        agent_name: str = "",
    ) -> None:
        """`messages` are those that the session has already."""
        super().__init__(messages)
        self.session_manager = session_manager
        self.history_key = history_key
        self.run_id = run_id
        self.root_run_id = root_run_id
        self.agent_name = agent_name
        self.session_id = ""
        """The session that it is kept in."""

    def append(self, message: ChatMessage, /) -> None:
        """One more, saved."""
        marked = self._marked(message)
        super().append(marked)
        self._tell([marked])

    def extend(self, messages: Iterable[ChatMessage], /) -> None:
        """Several more, saved together."""
        added = [self._marked(message) for message in messages]
        super().extend(added)
        self._tell(added)

    def __iadd__(self, messages: Iterable[ChatMessage], /) -> HistoryList:  # type: ignore[override,misc]
        self.extend(messages)
        return self

    def replace_all(self, messages: Iterable[ChatMessage]) -> None:
        """These in place of all, in the session too."""
        self[:] = [self._marked(message) for message in messages]
        if self.session_manager is not None:
            self.session_manager.replaced(self.history_key, self.run_id, list(self))

    def undo(self, run_id: str) -> int:
        """Takes back what came with a run, in the session too. How many messages that were here."""
        kept = [message for message in self if message.run_id != run_id]
        gone = len(self) - len(kept)
        self[:] = kept
        if self.session_manager is not None:
            self.session_manager.undone(self.history_key, run_id)
        return gone

    def update_context(self, run_id: str, root_run_id: str = "", agent_name: str = "") -> None:
        """The next run: what comes from here on is its."""
        self.run_id = run_id
        self.root_run_id = root_run_id or run_id
        self.agent_name = agent_name or self.agent_name

    async def flush(self) -> None:
        """Returns when all of it is saved. Raises what saving it raised."""
        if self.session_manager is not None:
            await self.session_manager.flush(self.history_key)

    def copy(self) -> HistoryList:
        """A fork: the same messages, in no session."""
        return HistoryList(self, run_id=self.run_id, root_run_id=self.root_run_id, agent_name=self.agent_name)

    def _marked(self, message: ChatMessage) -> ChatMessage:
        """With the run that it came with, unless it has one."""
        return message if message.run_id or not self.run_id else replace(message, run_id=self.run_id)

    def _tell(self, added: list[ChatMessage]) -> None:
        if self.session_manager is not None and added:
            self.session_manager.appended(self.history_key, self.run_id, added)

    def __reduce__(self) -> Any:
        return HistoryList, (list(self),)
