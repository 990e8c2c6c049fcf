"""Runs that are in flight all the time, each submitted until it is acknowledged and watched to its end."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.errors import ArchonError, InvalidArgument, ResourceExhausted

IN_FLIGHT = 8
RETRY = 0.2
"""Seconds that a caller waits before it calls another replica."""
STATES: dict[int, str] = {
    int(number): name.removeprefix("TASK_STATE_").lower() for name, number in common_pb2.TaskState.items()
}


@dataclass(frozen=True)
class Order:
    """A run to submit: its roles, and the seconds until it is canceled, or None if it is not."""

    roles: tuple[str, ...]
    cancelled_after: float | None = None


@dataclass
class Course:
    """A run as its caller saw it. Times are in monotonic seconds: `began` is the first attempt to submit it, `ended`
    the moment at which the watcher received its end."""

    run_id: str
    request_id: str
    began: float
    submitted: float
    ended: float = 0.0
    state: int = 0
    failure: str = ""
    events: list[run_pb2.RunEvent] = field(default_factory=list)
    answers: dict[str, bool] = field(default_factory=dict)
    """By request id: whether an answer to a question was accepted, as its caller was told."""

    @property
    def took(self) -> float:
        """Seconds from the first attempt to submit it to its last event, by that event's own time, because a watcher
        may receive it late. If that time is impossible, because the owner's clock jumped, the watcher's time counts."""
        until_received = self.ended - self.began
        wall_to_monotonic = time.time() - time.monotonic()
        own = self.events[-1].time.ToNanoseconds() / 1e9 - wall_to_monotonic - self.began
        return own if 0.0 < own < until_received else until_received


class Load:
    """Submits runs and watches them. Use it as an async context manager: on exit it waits for the last runs to end."""

    def __init__(self, clients: Sequence[Client], roles: Sequence[str], *, in_flight: int = IN_FLIGHT) -> None:
        self._clients = clients
        self._roles = roles
        self._numbers = itertools.count(1)
        self._stopping = False
        self._in_flight = in_flight
        self._workers: list[asyncio.Task[None]] = []
        self._beside: set[asyncio.Task[None]] = set()
        self.courses: list[Course] = []
        self.wrong: list[str] = []
        """Behaviour that a caller must never see."""

        self.refused: Counter[str] = Counter()
        """Number of submits that were answered with an error, by its class; each was retried."""

    async def __aenter__(self) -> Load:
        self._workers = [asyncio.create_task(self._work(), name="load") for _ in range(self._in_flight)]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopping = True
        if kind is not None:
            for worker in self._workers:
                worker.cancel()
        await asyncio.wait(self._workers, timeout=90)
        if kind is None and self._beside:
            await asyncio.wait(self._beside, timeout=30)
        for worker in (*self._workers, *self._beside):
            worker.cancel()

    @property
    def open(self) -> list[Course]:
        """The runs that have not ended."""
        return [course for course in self.courses if not course.ended]

    def order(self) -> Order:
        """Returns the next run to submit."""
        return Order(tuple(self._roles))

    def saw(self, course: Course, event: run_pb2.RunEvent) -> None:
        """Is called with each event of a run."""

    def beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Does something beside the runs, which is waited for at the end."""
        task = asyncio.create_task(work, name=f"load: {name}")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _work(self) -> None:
        while not self._stopping:
            number, order = next(self._numbers), self.order()
            course = await self._submit(order, f"load-{number}-{random.getrandbits(32):x}")
            self.courses.append(course)
            if order.cancelled_after is not None:
                self.beside(self._cancel(course, order.cancelled_after), "cancel")
            await self._watch(course)

    async def _cancel(self, course: Course, after: float) -> None:
        """Cancels the run after `after` seconds; retries until a replica acknowledges."""
        await asyncio.sleep(after)
        while not course.ended:
            try:
                await random.choice(self._clients).cancel(course.run_id)
                return
            except ArchonError:
                await asyncio.sleep(RETRY)

    async def _submit(self, order: Order, request_id: str) -> Course:
        """Submits to any replica and retries on another; the request id makes it one run."""
        began, client = time.monotonic(), random.choice(self._clients)
        while True:
            try:
                handle = await client.submit("x", roles=order.roles, request_id=request_id, timeout=120.0)
            except (InvalidArgument, AssertionError):
                raise
            except ArchonError as error:
                self.refused[type(error).__name__] += 1
                if isinstance(error, ResourceExhausted) and not error.retry_delay:
                    self.wrong.append(f"refused without a delay: {error}")
                await asyncio.sleep(RETRY)
                client = self._other(client)
            else:
                return Course(handle.run_id, request_id, began, time.monotonic())

    async def _watch(self, course: Course) -> None:
        """Watches the run on any replica, and resumes on another if the stream breaks."""
        last_seq, client = 0, random.choice(self._clients)
        while True:
            try:
                async with asyncio.timeout(8.0):
                    async for event in client.watch(course.run_id, last_seq, durable_only=True, patience=0.0):
                        if event.seq != last_seq + 1:
                            self.wrong.append(f"{course.run_id}: event {event.seq} after {last_seq}")
                        last_seq = event.seq
                        course.events.append(event.proto)
                        self.saw(course, event.proto)
                        if event.type == "run_state":
                            course.ended, course.state = time.monotonic(), event.proto.run_state.state
                            course.failure = event.proto.run_state.failure.message
                            return
            except (TimeoutError, ArchonError):
                await asyncio.sleep(RETRY / 2)
                client = self._other(client)

    def _other(self, client: Client) -> Client:
        """Returns a client of another replica, so that retries on a dead replica do not add to the measured time."""
        return random.choice([candidate for candidate in self._clients if candidate is not client])

    def fate(self) -> str:
        """Returns the number of runs per final state."""
        ends: dict[str, int] = {}
        for course in self.courses:
            name = STATES[course.state] if course.ended else "never ended"
            ends[name] = ends.get(name, 0) + 1
        return ", ".join(f"{count} {name}" for name, count in sorted(ends.items()))
