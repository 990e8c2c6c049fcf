"""The heartbeat of one stream: asks the instance for a sign of life, and notices its silence.

While the instance holds attempts, a heartbeat leaves every `heartbeat_interval`, and the stream breaks if nothing
arrives for `silence_limit`. An idle instance is asked every `idle_interval` only, and has the silence limit to answer:
otherwise a thousand idle instances would cost the orchestrator almost half a core. All streams of a process send at the
same times, each idle one at its turn, so that one wake-up serves many.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from archon.errors import ArchonError, DeadlineExceeded, Unavailable

_log = logging.getLogger(__name__)

SLIP: Final = 0.5
"""Seconds by which a timer may be late; if it is later, this process was suspended, and silence counts from now on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of sessions, in seconds."""

    heartbeat_interval: float = 0.5
    silence_limit: float = 2.0
    idle_interval: float = 4.0
    """The interval of heartbeats to an instance without attempts. An agent may end a stream on which it has received
    nothing for five silence limits."""
    resume_window: float = 2.0
    open_timeout: float = 1.0
    park_ttl: float = 25 * 3600.0
    missed: float = 15.0
    """How long an instance that is no longer registered keeps its session, even without tasks."""

    @classmethod
    def of_silence(cls, seconds: float) -> Limits:
        """Returns the limits by which an instance with tasks is lost after this silence."""
        return cls(heartbeat_interval=seconds / 4, silence_limit=seconds, idle_interval=2 * seconds)


class Silent(DeadlineExceeded):
    """The instance sent no message for longer than the silence limit."""


class Heartbeat:
    """Runs from `start` to `stop`. `busy` tells whether the instance holds attempts, `send` sends a heartbeat with its
    number, and `on_broken` is called once, with Silent, or Unavailable if Open is not answered in time."""

    def __init__(
        self,
        instance_id: str,
        limits: Limits,
        *,
        busy: Callable[[], bool],
        send: Callable[[int], None],
        on_broken: Callable[[ArchonError], None],
    ) -> None:
        self.heard_at = 0.0
        """When the last message of the instance arrived, on the loop's clock."""

        self.ready = False
        """True once the instance has answered Open."""

        self._instance_id = instance_id
        self._limits = limits
        self._busy = busy
        self._send = send
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._turn = crc32(instance_id.encode())
        self._counter = 0
        self._opened_at = 0.0
        self._sent_at = 0.0
        self._awaited = False
        """True while an idle instance has not been checked for its answer."""

        self._relaxed = False
        self._due_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Counts from now on."""
        self.heard_at = self._opened_at = self._loop.time()
        self._schedule(self._loop.time(), 1)

    def stop(self) -> None:
        """Cancels the timer: silence counts no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hurry(self) -> None:
        """The instance has been given an attempt: from now on its silence counts."""
        if not self._relaxed or self._timer is None:
            return
        unanswered = self._awaited and self.heard_at < self._sent_at
        self.heard_at = self._sent_at if unanswered else self._loop.time()
        self._timer.cancel()
        self._schedule(self._loop.time(), 1)

    def _ring(self) -> None:
        now = self._loop.time()
        try:
            if now - self._due_at > SLIP:
                self.heard_at = self._opened_at = self._sent_at = now
                self._awaited = False
            error = self._check(now)
        except Exception:  # noqa: BLE001 - the heartbeat goes on
            _log.exception("the heartbeat of %s failed", self._instance_id)
            error = None
            self._schedule(now, 1)
        if error is not None:
            self._timer = None
            self._on_broken(error)

    def _check(self, now: float) -> ArchonError | None:
        """Sends a due heartbeat and sets the timer. Returns the error that breaks the stream."""
        limits = self._limits
        if not self.ready:
            if now - self._opened_at > limits.open_timeout:
                return Unavailable(f"{self._instance_id} did not answer Open")
            self._schedule(now, 1)
        elif self._busy():
            if now - self.heard_at > limits.silence_limit:
                return self._silence()
            self._beat(now)
            self._schedule(now, 1)
        elif self._awaited:
            self._awaited = False
            if self.heard_at < self._sent_at:
                return self._silence()
            self._schedule(now, self._steps_to_turn(now), relaxed=True)
        else:
            self._beat(now)
            self._awaited = True
            self._schedule(now, -int(-limits.silence_limit // limits.heartbeat_interval), relaxed=True)
        return None

    def _beat(self, now: float) -> None:
        self._counter += 1
        self._sent_at = now
        self._send(self._counter)

    def _steps_to_turn(self, now: float) -> int:
        """Returns the number of intervals until the turn of this instance."""
        interval = self._limits.heartbeat_interval
        period = max(1, round(self._limits.idle_interval / interval))
        return 1 + (self._turn - int(now / interval) - 1) % period

    def _schedule(self, now: float, steps: int, *, relaxed: bool = False) -> None:
        interval = self._limits.heartbeat_interval
        self._relaxed = relaxed
        self._due_at = (int(now / interval) + steps) * interval
        self._timer = self._loop.call_at(self._due_at, self._ring)

    def _silence(self) -> Silent:
        return Silent(f"{self._instance_id} was silent for {self._limits.silence_limit:g} s")
