"""The messages of an agent, as a list that forwards its changes to a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

from typing_extensions import override

from archon_mesh.core.messages import ChatMessage

_log = logging.getLogger(__name__)


class HistorySink(Protocol):
    """Receives the changes of a history. Only `flush` waits; changes are saved at the latest by `HistoryList.flush`."""

    def appended(self, key: str, run_id: str, messages: list[ChatMessage]) -> None: ...

    def replaced(self, key: str, run_id: str, messages: list[ChatMessage]) -> None: ...

    def undone(self, key: str, run_id: str) -> None: ...

    async def flush(self, key: str) -> None: ...


class Sessions(Protocol):
    """The part of a session manager that an agent uses."""

    def open(self, user_id: str, session_id: str, agent_name: str) -> AbstractAsyncContextManager[HistoryList]:
        """Yields the agent's history in a session, which is created if it does not exist.

        The history is loaded at the start of the block and saved at its end. A second caller waits until then.
        """
        ...


class HistoryList(list[ChatMessage]):
    """A list of messages.

    `append`, `extend` and `+=` are saved in the session, `replace_all` replaces the saved messages, and `undo` removes
    a run. Assigning or deleting items affects this list only. Without a session manager nothing is saved. `copy`
    returns a fork: the same messages, in no session.
    """

    def __init__(
        self,
        messages: Iterable[ChatMessage] = (),
        session_manager: HistorySink | None = None,
        history_key: str = "",
        run_id: str = "",
        root_run_id: str = "",
        agent_name: str = "",
    ) -> None:
        """`messages` are those that the session already has."""
        super().__init__(messages)
        self.session_manager = session_manager
        self.history_key = history_key
        self.run_id = run_id
        self.root_run_id = root_run_id
        self.agent_name = agent_name
        self.session_id = ""
        """The session that stores this history, empty for none."""
        self._saving: set[asyncio.Future[None]] = set()
        self._loop = _running_loop()

    @override
    def append(self, message: ChatMessage, /) -> None:
        tagged = self._with_run_id(message)
        super().append(tagged)
        self._save_appended([tagged])

    @override
    def extend(self, messages: Iterable[ChatMessage], /) -> None:
        tagged = [self._with_run_id(message) for message in messages]
        super().extend(tagged)
        self._save_appended(tagged)

    @override
    def __iadd__(self, messages: Iterable[ChatMessage], /) -> HistoryList:  # type: ignore[override]
        self.extend(messages)
        return self

    def replace_all(self, messages: Iterable[ChatMessage]) -> None:
        """Replaces all messages, in the session too."""
        self[:] = [self._with_run_id(message) for message in messages]
        if self.session_manager is not None:
            self.session_manager.replaced(self.history_key, self.run_id, list(self))

    def undo(self, run_id: str) -> int:
        """Removes the messages of a run, in the session too. Returns how many this list had."""
        kept = [message for message in self if message.run_id != run_id]
        removed = len(self) - len(kept)
        self[:] = kept
        if self.session_manager is not None:
            self.session_manager.undone(self.history_key, run_id)
        return removed

    def update_context(self, run_id: str, root_run_id: str = "", agent_name: str = "") -> None:
        """Sets the run that messages appended from now on belong to."""
        self.run_id = run_id
        self.root_run_id = root_run_id or run_id
        self.agent_name = agent_name or self.agent_name

    def flush(self) -> Awaitable[None]:
        """Starts to save all changes. Await the result to return when they are saved; it raises the errors of saving.

        If the result is not awaited, changes that cannot be saved stay pending, and the end of the run saves them or
        raises. Where no event loop runs, such as in a tool that is a plain function, the loop of the run saves them.
        """
        if self.session_manager is None:
            return _Saved()
        if _running_loop() is not None:
            return self._start_saving()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start_saving)
        return _Saved()

    def _start_saving(self) -> Awaitable[None]:
        if self.session_manager is None:  # the run has ended, and has saved everything
            return _Saved()
        saving = asyncio.ensure_future(self.session_manager.flush(self.history_key))
        self._saving.add(saving)
        saving.add_done_callback(self._saved)
        return saving

    def _saved(self, saving: asyncio.Future[None]) -> None:
        self._saving.discard(saving)
        if not saving.cancelled() and (error := saving.exception()) is not None:
            _log.debug("the history of %s is not saved yet: %s", self.agent_name, error)

    @override
    def copy(self) -> HistoryList:
        return HistoryList(self, run_id=self.run_id, root_run_id=self.root_run_id, agent_name=self.agent_name)

    def _with_run_id(self, message: ChatMessage) -> ChatMessage:
        return message if message.run_id or not self.run_id else replace(message, run_id=self.run_id)

    def _save_appended(self, messages: list[ChatMessage]) -> None:
        if self.session_manager is not None and messages:
            self.session_manager.appended(self.history_key, self.run_id, messages)

    def __reduce__(self) -> Any:
        return HistoryList, (list(self),)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Saved:
    """An awaitable that returns at once, and that need not be awaited."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()
