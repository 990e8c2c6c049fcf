"""What the stateful roles of one run remember of its session: read before a dispatch, and added to with the result.

The journal decides whose turn counts. That tasks of one conversation wait for each other here is a courtesy: it spares
attempts that would come second.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon_mesh.core.run import Place, RunState
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.journal import Conversation, Journal, Turn

PATIENCE: Final = 30.0
"""Seconds that a task waits for another's turn; then it goes ahead. Coordinators that wait for each other's roles in
one session would wait for ever."""

Key = tuple[str, str, str]
"""Tenant, session, role."""


class TurnQueue:
    """Whose turn it is in the conversations that this process has a part in: first come, first served."""

    def __init__(self) -> None:
        self._lines: dict[Key, OrderedDict[str, Callable[[], None]]] = {}

    def take(self, key: Key, task_id: str, wake: Callable[[], None]) -> bool:
        """True where the turn is the task's; else it stands in line, and `wake` is called when it may be."""
        line = self._lines.setdefault(key, OrderedDict())
        line.setdefault(task_id, wake)
        return next(iter(line)) == task_id

    def leave(self, key: Key, task_id: str) -> None:
        """It stands in line no more, at its head or behind."""
        line = self._lines.get(key)
        if line is None or line.pop(task_id, None) is None:
            return
        if not line:
            del self._lines[key]
        else:
            next(iter(line.values()))()


@dataclass(slots=True)
class _Told:
    """What an attempt is given of its conversation; `known` None: it isn't read yet. `since` on the loop's clock."""

    attempt: int
    key: Key
    since: float
    known: Conversation | None = None
    patience: asyncio.TimerHandle | None = None


class SessionHistory:
    """Of one run. `stateful` says whether a role remembers; `wake` is called when the run is to look again."""

    def __init__(
        self, journal: Journal, turns: TurnQueue, stateful: Callable[[str], bool], wake: Callable[[], None]
    ) -> None:
        self._journal = journal
        self._turns = turns
        self._stateful = stateful
        self._wake = wake
        self._told: dict[str, _Told] = {}
        self._behind: set[tuple[str, int]] = set()
        """Attempts whose turn came second."""

    def waits(self, run: RunState, place: Place) -> bool:
        """True where the task can't be given out yet: it isn't its turn, or what it is to be told isn't read yet."""
        assert run.submission is not None
        role, session = run.tasks[place.task_id].role, run.submission.session_id
        if not session or not self._stateful(role):
            return False
        told = self._told.get(place.task_id)
        if told is None or told.attempt != place.attempt:
            if told is not None:
                _call_off(told)
            key = run.submission.tenant, session, role
            told = self._told[place.task_id] = _Told(place.attempt, key, asyncio.get_running_loop().time())
        if told.known is not None:
            return False
        if self._may_go(told, place.task_id):
            self._wake()
        return True

    async def read(self) -> None:
        """What is to be told to the tasks whose turn it is. Raises what the journal raises."""
        for task_id, told in list(self._told.items()):
            if told.known is None and self._may_go(told, task_id):
                told.known = await self._journal.conversation(*told.key)

    def _may_go(self, told: _Told, task_id: str) -> bool:
        loop = asyncio.get_running_loop()
        if self._turns.take(told.key, task_id, self._wake) or loop.time() >= told.since + PATIENCE:
            return True
        if told.patience is None:
            told.patience = loop.call_at(told.since + PATIENCE, self._wake)
        return False

    def version(self, place: Place) -> int | None:
        """Of what the attempt is told; None where its role remembers nothing of this."""
        told = self._told.get(place.task_id)
        return told.known.version if told is not None and told.attempt == place.attempt and told.known else None

    def history(self, task_id: str) -> Sequence[bytes]:
        """What its attempt is told, turn by turn."""
        told = self._told.get(task_id)
        return told.known.turns if told is not None and told.known is not None else ()

    def marked(self, given: inp.Input) -> inp.Input:
        """A result whose turn came second says so."""
        if isinstance(given, inp.ResultIn) and (given.task_id, given.attempt) in self._behind:
            return replace(given, version_conflict=True)
        return given

    def added(self, run: RunState, decided: Iterable[ev.Event]) -> tuple[Turn, ...]:
        """The turns that these events store."""
        return tuple(
            _turn(run, event) for event in decided if isinstance(event, ev.ResultReceived) and event.stores_turn
        )

    async def look_again(self, run: RunState, decided: Iterable[ev.Event]) -> None:
        """Their append was refused: which of them came second? Raises what the journal raises."""
        for event in decided:
            if isinstance(event, ev.ResultReceived) and event.stores_turn:
                turn = _turn(run, event)
                known = await self._journal.conversation(turn.tenant, turn.session_id, turn.role)
                if known.version >= turn.version:
                    self._behind.add((event.task_id, event.attempt))

    def keep(self, run: RunState) -> None:
        """After a step: whoever has had its turn leaves it to the next, and what was handed over isn't kept."""
        for task_id, told in list(self._told.items()):
            task = run.tasks[task_id]
            if not task.live and not run.ready(task):
                self._leave(task_id, told)
            elif task.live and told.attempt == task.attempt and told.known is not None and told.known.turns:
                told.known = Conversation(told.known.version, ())

    def call_off(self) -> None:
        """The run needs nothing more here."""
        for task_id, told in list(self._told.items()):
            self._leave(task_id, told)

    def _leave(self, task_id: str, told: _Told) -> None:
        _call_off(told)
        del self._told[task_id]
        self._turns.leave(told.key, task_id)


def _call_off(told: _Told) -> None:
    if told.patience is not None:
        told.patience.cancel()


def _turn(run: RunState, event: ev.ResultReceived) -> Turn:
    assert run.submission is not None
    said, read = event.payload, run.tasks[event.task_id].conversation_version
    assert isinstance(said, agent_pb2.TaskResult)
    assert read is not None
    data = agent_pb2.AssignTask(history=said.new_history).SerializeToString()
    return Turn(run.submission.tenant, run.submission.session_id, event.role, read + 1, data)
