"""The sessions of an agent: its streams with orchestrators, and each one's share of the agent's capacity."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from archon.agent.attempt import Attempt
from archon.agent.attempt_table import AttemptTable
from archon.agent.rejections import StreamExhausted, draining, no_capacity, replaced, short_of_memory
from archon.agent.session import Agent, AgentSession
from archon.background import BackgroundLoop
from archon.errors import ArchonError

SWEEP_INTERVAL: Final = 5.0
"""Seconds between two looks at attempts and streams without news."""

MAX_SESSIONS: Final = 64
"""Orchestrators that may have a session at a time: far more than one mesh has replicas."""

MAX_UNOPENED: Final = 64
"""Streams that may wait for Open at a time. A further one ends the oldest: an orchestrator sends Open at once."""


class AgentSessions(Agent):
    """Adds and ends streams, splits the capacity among those that are open, and refuses tasks that exceed it."""

    def __init__(self, max_tasks: int, max_waiting: int) -> None:
        """Makes room for `max_tasks` tasks at a time, besides `max_waiting` that wait for their delegations."""
        self._max_waiting = max_waiting
        self.attempts = AttemptTable(max_tasks, self._credit)
        self._streams: list[AgentSession] = []
        self._sessions: list[AgentSession] = []
        self._draining = False
        self._reached = asyncio.Event()
        self._sweeper = BackgroundLoop("agent: sweep", self._sweep, backoff_max=SWEEP_INTERVAL)

    def stream_began(self) -> AgentSession:
        """Adds a stream; it becomes a session with its Open frame."""
        unopened = [stream for stream in self._streams if not stream.orchestrator_id and not stream.queue.closed]
        if len(unopened) >= MAX_UNOPENED:
            unopened[0].end(StreamExhausted("too many streams wait for Open", retry_delay=1.0))
        session = AgentSession(self)
        self._streams.append(session)
        return session

    def session_opened(self, session: AgentSession) -> int:
        """Ends an older stream of the same orchestrator and splits the capacity anew. Returns the session's share.
        Raises StreamExhausted if MAX_SESSIONS other orchestrators have a session."""
        others = sum(other.orchestrator_id != session.orchestrator_id for other in self._sessions)
        if others >= MAX_SESSIONS:
            raise StreamExhausted(f"this instance has {others} sessions, which is its limit", retry_delay=1.0)
        for older in list(self._sessions):
            if older.orchestrator_id == session.orchestrator_id:
                self._sessions.remove(older)
                older.end(replaced(session.orchestrator_id))
        self._sessions.append(session)
        self._reached.set()
        share = session.announced = self._share()  # by Ready
        session.window.set(share)
        self._credit()
        return share

    def stream_ended(self, session: AgentSession) -> None:
        """Removes a stream. Its attempts continue and wait to be adopted on another one."""
        self._streams.remove(session)
        if session in self._sessions:
            self._sessions.remove(session)
        for attempt in self.attempts:
            if attempt.session is session:
                attempt.session = None
        self.attempts.changed()

    def _credit(self) -> None:
        share = self._share()
        for session in self._sessions:
            if session.announced != share:
                session.window.set(share)
                session.credit(share, self.waiting_share)

    def _share(self) -> int:
        room = self.attempts.capacity - len(self.attempts.abandoned)
        if self._draining or room <= 0 or self.attempts.parked_full or self.attempts.memory.recovers:
            return 0
        if self.attempts.memory.short:  # one task at a time goes on: it may be the only instance
            return 0 if self.attempts.running else 1
        return room // (len(self._sessions) or 1) or 1

    @property
    def draining(self) -> bool:
        """Whether it stops, and takes no new tasks."""
        return self._draining

    @property
    def waiting_share(self) -> int:
        """How many more tasks may wait for their delegations on each session."""
        return max(1, self._max_waiting // max(1, len(self._sessions)))

    def refusal(self, superseded: Attempt | None, session: AgentSession | None) -> ArchonError | None:
        """The error that refuses another task, or None if there is a slot. `superseded` is the attempt it replaces,
        `session` the one that it comes from, if any: beside others, a session gets its own share only."""
        if self._draining:
            return draining()
        if self.attempts.parked_full:
            return no_capacity(0.2)
        if self.attempts.memory.recovers or (self.attempts.memory.short and self.attempts.running):
            return short_of_memory()
        if session is not None and len(self._sessions) > 1:
            own = [a for a in self.attempts.running if a.session is session and a.working and a is not superseded]
            waiting = min(self.waiting_share, sum(attempt.waiting for attempt in own))
            if len(own) - waiting >= session.window.allowed:
                return no_capacity(0.2)
        slots = max(self.attempts.capacity, len(self._sessions))
        if len(self.attempts.running) < slots:
            return None
        running = self.attempts.running - {superseded} if superseded is not None else self.attempts.running
        busy = len(running) - min(self._max_waiting, sum(attempt.waiting for attempt in running))
        return no_capacity(0.2) if busy >= slots else None

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL)
            self.attempts.expire()
            for session in self._streams:
                session.check()
            self._credit()
            if self._sessions:
                self._offer(random.choice(self._sessions))

    def _offer(self, session: AgentSession) -> None:
        """Offers parked results to any orchestrator, which can judge them by the journal: their owner may have released
        the run. Reports attempts in progress that have no stream or wait for an answer: they may be over."""
        late = time.monotonic() - SWEEP_INTERVAL
        for attempt in self.attempts:
            if attempt.finished_at is not None and (attempt.session is None or attempt.finished_at < late):
                attempt.offer(session)
            elif attempt.working and (attempt.session is None or attempt.waiting):
                attempt.offer(attempt.session or session)
