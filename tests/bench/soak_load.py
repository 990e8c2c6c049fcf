"""The load of a soak: runs in every way that a client can ask for them, each seen through to its end."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from archon.client import Client
from archon.converse_stream import ConverseStream
from archon.errors import ArchonError
from archon.security.credentials import Credentials
from archon.types import Budget, Run, TaskState

GOAL = "Readers must be able to reserve a book. The clerk must see overdue books. Fines should be shown to readers."
SESSIONS = 20
SEEN_THROUGH_WITHIN = 60.0
MOST_UNDER_WAY = 500
TIMES_KEPT = 200_000

RATES = {"waited": 6.0, "conversed": 4.0, "watched": 2.0, "cancelled": 1.0, "in a session": 2.0, "delegated": 1.5}
"""Runs a second, by kind."""


class Tally:
    """What became of the runs."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.retried = 0
        self.held_back = 0
        self.times: list[float] = []

    def ended(self, kind: str, run: Run, seconds: float) -> None:
        """A run that was seen to its end, or wasn't."""
        self.kinds[kind] += 1
        self.states[run.state] += 1
        self.retried += any(task.attempt > 1 for task in run.tasks)
        if run.state == TaskState.COMPLETED:
            if len(self.times) < TIMES_KEPT:
                self.times.append(seconds)
            else:
                self.times[random.randrange(TIMES_KEPT)] = seconds
        elif not run.state.final:
            self.failures[f"{kind}: lost, it is {run.state} after {SEEN_THROUGH_WITHIN:g} s"] += 1
        elif run.state != TaskState.CANCELED or kind != "cancelled":
            self.failures[f"{kind}: {run.state}, {run.proto.failure.reason}: {run.proto.failure.message}"[:200]] += 1

    def quantile(self, share: float) -> float:
        """Of the times of completed runs, in seconds."""
        times = sorted(self.times)
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0


class Load:
    """Use it as an async context manager: at its end every run that was begun is seen through."""

    def __init__(self, target: str, tally: Tally, credentials: Credentials) -> None:
        self.tally = tally
        self._client = Client(target, credentials=credentials)
        self._ends: dict[str, asyncio.Event] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._conversation: asyncio.Future[ConverseStream] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Load:
        ways: dict[str, Callable[[str], Awaitable[Run]]] = {
            "waited": self._waited,
            "conversed": self._conversed,
            "watched": self._watched,
            "cancelled": self._cancelled,
            "in a session": self._in_a_session,
            "delegated": self._delegated,
        }
        self._tasks = [asyncio.create_task(self._tick(kind, ways[kind]), name=kind) for kind in RATES]
        self._tasks.append(asyncio.create_task(self._converse(), name="conversation"))
        return self

    async def __aexit__(self, *_: object) -> None:
        conversation = self._tasks.pop()
        await _end(*self._tasks)
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=SEEN_THROUGH_WITHIN)
        await _end(conversation, *self._under_way)
        await self._client.close()

    async def _tick(self, kind: str, way: Callable[[str], Awaitable[Run]]) -> None:
        """Begins runs at an even rate, whether or not the earlier ones have ended."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + 1 / RATES[kind], loop.time() - 1.0)
            await asyncio.sleep(due - loop.time())
            if len(self._under_way) >= MOST_UNDER_WAY:
                self.tally.held_back += 1
                continue
            task = asyncio.create_task(self._one(kind, way))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _one(self, kind: str, way: Callable[[str], Awaitable[Run]]) -> None:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(SEEN_THROUGH_WITHIN + 5.0):
                run = await way(GOAL)
        except (ArchonError, TimeoutError) as error:
            self.tally.failures[f"{kind}: {type(error).__name__}: {error}"[:200]] += 1
        else:
            self.tally.ended(kind, run, time.perf_counter() - began)

    async def _waited(self, goal: str) -> Run:
        return (await self._client.submit(goal, wait=SEEN_THROUGH_WITHIN)).run

    async def _in_a_session(self, goal: str) -> Run:
        session = f"session-{random.randrange(SESSIONS)}"
        return (await self._client.submit(goal, session_id=session, wait=SEEN_THROUGH_WITHIN)).run

    async def _delegated(self, goal: str) -> Run:
        budget = Budget(max_tokens=1_000_000)
        return (await self._client.submit(goal, strategy="agent", budget=budget, wait=SEEN_THROUGH_WITHIN)).run

    async def _conversed(self, goal: str) -> Run:
        conversation = await asyncio.shield(self._conversation)
        run = await conversation.submit(goal)
        ended = self._ends.setdefault(run.run_id, asyncio.Event())
        try:
            async with asyncio.timeout(SEEN_THROUGH_WITHIN):
                await ended.wait()
        finally:
            self._ends.pop(run.run_id, None)
        return await self._client.get(run.run_id)

    async def _converse(self) -> None:
        """One stream for as long as it holds; where it breaks, that is a failure, and another one."""
        while True:
            try:
                async with self._client.converse() as conversation:
                    self._conversation.set_result(conversation)
                    async for event in conversation:
                        if event.type == "run_state":
                            self._ends.setdefault(event.run_id, asyncio.Event()).set()
                self.tally.failures["the conversation ended"] += 1
            except ArchonError as error:
                self.tally.failures[f"the conversation broke: {error}"[:200]] += 1
            self._conversation = asyncio.get_running_loop().create_future()
            await asyncio.sleep(1.0)

    async def _watched(self, goal: str) -> Run:
        """Left after two events, resumed from there: every durable event must come once and in order."""
        handle = await self._client.submit(goal)
        seen: list[int] = []
        for most in (2, 1_000_000):
            async with aclosing(handle.events(seen[-1] if seen else 0)) as events:
                async for event in events:
                    seen += [event.seq] if event.seq else []
                    if len(seen) >= most:
                        break
        run = await self._client.get(handle.run_id)
        if seen != list(range(1, run.last_seq + 1)):
            self.tally.failures["watched: the events don't come once and in order"] += 1
        return run

    async def _cancelled(self, goal: str) -> Run:
        handle = await self._client.submit(goal)
        await handle.cancel("the soak cancels some")
        return await handle.result(timeout=SEEN_THROUGH_WITHIN)


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
