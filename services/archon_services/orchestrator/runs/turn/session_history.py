"""Conversations of the stateful roles in one run: read before a dispatch, extended by the step of the result.

The journal decides whose turn counts. Tasks of one conversation also wait for each other within this process, which
only spares attempts that would come second.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from archon_mesh.engine import Place, RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.journal import Conversation, Journal
from archon_services.orchestrator.runs.turn.step import turn_of

PATIENCE: Final = 30.0
"""Seconds that a task waits for another one's turn; then it goes ahead. Coordinators that wait for each other's roles
in one session would wait for ever otherwise."""

Key = tuple[str, str, str]
"""Tenant, session, role."""


class TurnQueue:
    """Tasks that wait for their turn in the conversations that this process serves, first come, first served."""

    def __init__(self) -> None:
        self._queues: dict[Key, OrderedDict[str, Callable[[], None]]] = {}

    def take(self, key: Key, task_id: str, wake: Callable[[], None]) -> bool:
        """Returns whether it is the task's turn; if not, queues it, and `wake` is called when it may be."""
        queue = self._queues.setdefault(key, OrderedDict())
        queue.setdefault(task_id, wake)
        return next(iter(queue)) == task_id

    def leave(self, key: Key, task_id: str) -> None:
        """Removes a task from the queue, wherever it stands."""
        queue = self._queues.get(key)
        if queue is None or queue.pop(task_id, None) is None:
            return
        if not queue:
            del self._queues[key]
        else:
            next(iter(queue.values()))()


@dataclass(slots=True)
class _Entry:
    """The conversation of an attempt, None until it is read. `since` on the loop's clock."""

    attempt: int
    key: Key
    since: float
    conversation: Conversation | None = None
    patience: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.patience is not None:
            self.patience.cancel()


class SessionHistory:
    """The conversations of one run. `stateful` tells whether a role is stateful; `wake` is called when the run should
    decide again."""

    __slots__ = ("_behind", "_entries", "_journal", "_queue", "_stateful", "_wake")

    def __init__(
        self, journal: Journal, queue: TurnQueue, stateful: Callable[[str], bool], wake: Callable[[], None]
    ) -> None:
        self._journal = journal
        self._queue = queue
        self._stateful = stateful
        self._wake = wake
        self._entries: dict[str, _Entry] = {}
        self._behind: set[tuple[str, int]] = set()
        """Attempts whose turn came second."""

    def waits(self, run: RunState, place: Place) -> bool:
        """Returns whether the task cannot be dispatched yet: it is not its turn, or its conversation is not read."""
        assert run.submission is not None
        session = run.submission.session_id
        if not session or run.tasks[place.task_id].step_id:  # steps of one role would wait for each other
            return False
        role = run.tasks[place.task_id].role
        if not self._stateful(role):
            return False
        entry = self._entries.get(place.task_id)
        if entry is None or entry.attempt != place.attempt:
            if entry is not None:
                entry.cancel()
            key = run.submission.tenant, session, role
            entry = self._entries[place.task_id] = _Entry(place.attempt, key, asyncio.get_running_loop().time())
        if entry.conversation is not None:
            return False
        if self._may_go(entry, place.task_id):
            self._wake()
        return True

    def unread(self) -> bool:
        """Returns whether `read` has something to read."""
        return bool(self._entries) and any(
            entry.conversation is None and self._may_go(entry, task_id) for task_id, entry in self._entries.items()
        )

    async def read(self) -> None:
        """Reads the conversations of the tasks whose turn it is. Raises the errors of the journal."""
        for task_id, entry in list(self._entries.items()):
            if entry.conversation is None and self._may_go(entry, task_id):
                entry.conversation = await self._journal.conversation(*entry.key)

    def _may_go(self, entry: _Entry, task_id: str) -> bool:
        loop = asyncio.get_running_loop()
        if self._queue.take(entry.key, task_id, self._wake) or loop.time() >= entry.since + PATIENCE:
            return True
        if entry.patience is None:
            entry.patience = loop.call_at(entry.since + PATIENCE, self._wake)
        return False

    def version(self, place: Place) -> int | None:
        """Returns the version of the conversation that the attempt is given, None if its role is stateless."""
        entry = self._entries.get(place.task_id) if self._entries else None
        if entry is None or entry.attempt != place.attempt or entry.conversation is None:
            return None
        return entry.conversation.version

    def turns(self, task_id: str) -> Sequence[bytes]:
        """Returns the turns that the task's attempt is given, oldest first."""
        entry = self._entries.get(task_id) if self._entries else None
        return entry.conversation.turns if entry is not None and entry.conversation is not None else ()

    @property
    def outdated(self) -> bool:
        """Whether a turn of this run came second."""
        return bool(self._behind)

    def marked(self, given: inp.Input) -> inp.Input:
        """Marks a result whose turn came second as outdated."""
        if isinstance(given, inp.ResultIn) and (given.task_id, given.attempt) in self._behind:
            return replace(given, version_conflict=True)
        return given

    async def find_outdated(self, run: RunState, events: Iterable[ev.Event]) -> None:
        """Finds out which of these results came second, after their step was refused. Raises the errors of the
        journal."""
        for event in events:
            if isinstance(event, ev.ResultReceived) and event.stores_turn:
                turn = turn_of(run, event)
                conversation = await self._journal.conversation(turn.tenant, turn.session_id, turn.role)
                if conversation.version >= turn.version:
                    self._behind.add((event.task_id, event.attempt))

    def release(self, run: RunState) -> None:
        """Ends the turns of tasks that have had theirs, and drops histories that were sent. Called after each step."""
        if not self._entries:
            return
        for task_id, entry in list(self._entries.items()):
            task = run.tasks.get(task_id)
            # A task whose step was not stored does not exist; if the step is decided again, the task waits anew.
            if task is None or (not task.live and not run.ready(task)):
                self._leave(task_id, entry)
            elif task.live and entry.attempt == task.attempt and entry.conversation and entry.conversation.turns:
                entry.conversation = Conversation(entry.conversation.version, ())

    def cancel(self) -> None:
        """Ends all turns of the run."""
        for task_id, entry in list(self._entries.items()):
            self._leave(task_id, entry)

    def _leave(self, task_id: str, entry: _Entry) -> None:
        entry.cancel()
        del self._entries[task_id]
        self._queue.leave(entry.key, task_id)
