"""Delivers notices on all channels. A run never waits for a channel, and a channel never for another one."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from archon.background import BackgroundLoop
from archon_services.orchestrator.channels.notice import Channel, Notice

_log = logging.getLogger(__name__)

MAX_QUEUED: Final = 1_000
"""Notices that wait for a channel; the oldest is dropped for a further one."""

MAX_QUEUED_BYTES: Final = 4 * 1024 * 1024
"""Characters of their texts together, likewise."""

MAX_SENT: Final = 10_000
"""Ids of notices that a channel remembers to have delivered."""

TRIES: Final = 8
"""How often the delivery of a notice is tried."""

MIN_BACKOFF: Final = 0.5
MAX_BACKOFF: Final = 30.0

TIMEOUT: Final = 15.0
"""Seconds of one try."""

IsOpen = Callable[[str, str], bool]
"""Whether a question, by its run and its id, is still open here."""


class Notifier:
    """A queue and a background loop for each channel. This process delivers a notice once, if its channel accepts it
    within TRIES tries; after a takeover the run's next owner delivers it again, with the same id."""

    def __init__(
        self,
        channels: Iterable[Channel],
        is_open: IsOpen,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._lines = [_Line(channel, is_open, sleep, uniform) for channel in channels]

    def start(self) -> None:
        """Starts the loops."""
        for line in self._lines:
            line.loop.start()

    def notify(self, notices: Iterable[Notice]) -> None:
        """Queues notices on every channel. Never waits and never raises."""
        for notice in notices:
            for line in self._lines:
                line.put(notice)

    async def close(self) -> None:
        """Stops the loops and closes the channels; queued notices are not sent. Idempotent."""
        for line in self._lines:
            await line.loop.close()
            await line.channel.close()


class _Line:
    """The queue of one channel."""

    def __init__(
        self,
        channel: Channel,
        is_open: IsOpen,
        sleep: Callable[[float], Awaitable[object]],
        uniform: Callable[[float, float], float],
    ) -> None:
        self.channel = channel
        self.loop = BackgroundLoop(f"channel {channel.name}", self._run)
        self._is_open = is_open
        self._sleep = sleep
        self._uniform = uniform
        self._queue: deque[Notice] = deque()
        self._bytes = 0
        self._sent: dict[str, None] = {}
        """Ids of notices that were queued or delivered, the oldest first."""
        self._news = asyncio.Event()

    def put(self, notice: Notice) -> None:
        if notice.id in self._sent:
            return
        self._sent[notice.id] = None
        if len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]
        self._queue.append(notice)
        self._bytes += len(notice.text)
        while len(self._queue) > MAX_QUEUED or self._bytes > MAX_QUEUED_BYTES:
            dropped = self._take()
            _log.warning("channel %s is too slow: notice %s is dropped", self.channel.name, dropped.id)
        self._news.set()

    def _take(self) -> Notice:
        notice = self._queue.popleft()
        self._bytes -= len(notice.text)
        return notice

    async def _run(self) -> None:
        while True:
            self._news.clear()
            while self._queue:
                await self._deliver(self._take())
                self.loop.report_progress()
            await self._news.wait()

    async def _deliver(self, notice: Notice) -> None:
        extra = {"run_id": notice.run_id}
        for number in range(1, TRIES + 1):
            if not self._is_open(notice.run_id, notice.input_id):
                return
            try:
                async with asyncio.timeout(TIMEOUT):
                    await self.channel.notify(notice)
                return
            except Exception as error:  # noqa: BLE001 - a channel of a user may raise anything; the next notice goes on
                _log.warning(
                    "channel %s, try %d of notice %s: %s", self.channel.name, number, notice.id, error, extra=extra
                )
            if number < TRIES:
                ceiling = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** (number - 1))
                await self._sleep(self._uniform(0.0, ceiling))  # full jitter
        _log.error("channel %s: notice %s is given up", self.channel.name, notice.id, extra=extra)
