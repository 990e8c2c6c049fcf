"""The attempts that an agent holds: in progress, or finished and parked until the result is acked.

They belong to the agent, not to a stream: they outlive a stream that breaks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from archon.agent.attempt import Attempt
from archon.agent.shared import SharedConnection
from archon.api.common.v1 import common_pb2
from archon.errors import Aborted
from archon.memory_room import SHORTAGE, MemoryRoom
from archon.telemetry import logs

_log = logging.getLogger(__name__)

MAX_EPOCHS: Final = 10_000
MAX_OVER: Final = 10_000
MAX_PARKED_BYTES: Final = 64 * 1024 * 1024
STOP_GRACE: Final = 1.0


class AttemptTable:
    """All attempts of an agent, one per task. `on_changed` is called when an attempt has ended or was dropped."""

    def __init__(self, capacity: int, on_changed: Callable[[], None]) -> None:
        self.capacity = capacity
        """How many handlers may run at once."""
        self.running: set[Attempt] = set()
        """Attempts whose handler has not ended, also those that are over without it."""
        self.abandoned: set[Attempt] = set()
        """Running attempts that are over: their handler did not end when it was cancelled."""
        self.memory = MemoryRoom()
        self.shared = SharedConnection()
        """The values that tasks share with others of their runs."""
        self._attempts: dict[str, Attempt] = {}
        self._kept_bytes: dict[Attempt, int] = {}
        self._parked_bytes = 0
        self._epochs: OrderedDict[str, int] = OrderedDict()
        self._over: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        self._changed = asyncio.Event()
        self._on_changed = on_changed

    def __iter__(self) -> Iterator[Attempt]:
        return iter(list(self._attempts.values()))

    def __len__(self) -> int:
        return len(self._attempts)

    def note_shortage(self) -> None:
        """Notes that an attempt found no memory: until some has been freed, other instances take the tasks."""
        self.memory.note_shortage()
        self.changed()
        asyncio.get_running_loop().call_later(SHORTAGE + 0.1, self.changed)

    def newest(self, task_id: str) -> Attempt | None:
        """The attempt at this task that is held, whatever its number."""
        return self._attempts.get(task_id)

    def add(self, attempt: Attempt) -> None:
        """Adds an attempt. An older one at the same task is stopped and dropped: its result could not count."""
        older = self._attempts.get(attempt.ref.task_id)
        if older is not None:
            older.session = None
            older.cancel()
        self._attempts[attempt.ref.task_id] = attempt
        if older is not None:
            self.recount(older)

    def drop(self, attempt: Attempt) -> None:
        """Drops an attempt whose result was acked or does not count, and remembers for a while that it is over."""
        self.mark_over(attempt.ref)
        if self._attempts.get(attempt.ref.task_id) is attempt:
            del self._attempts[attempt.ref.task_id]
            self.recount(attempt)
        attempt.session = None
        attempt.cancel()
        self.changed()

    def mark_over(self, ref: common_pb2.TaskRef) -> None:
        """Remembers that the attempt is over, or was rejected."""
        self._over[ref.run_id, ref.task_id, ref.attempt] = None
        if len(self._over) > MAX_OVER:
            self._over.popitem(last=False)

    def is_over(self, ref: common_pb2.TaskRef) -> bool:
        """True if the attempt is known to be over: a late copy of its assignment starts nothing."""
        return (ref.run_id, ref.task_id, ref.attempt) in self._over

    def check_epoch(self, ref: common_pb2.TaskRef, held: Attempt | None) -> None:
        """Raises Aborted / STALE_EPOCH below the highest epoch seen for the run; remembers a higher one. `held` is the
        newest attempt at the task."""
        run_id, epoch = ref.run_id, ref.epoch
        highest = self._epochs.get(run_id, 0)
        if held is not None and held.ref.epoch > highest:
            highest = held.ref.epoch  # the epoch of a run may have been forgotten, that of an attempt not
        if epoch < highest:
            raise Aborted(
                f"epoch {epoch} of run {run_id} is over; its owner has epoch {highest}",
                reason="STALE_EPOCH",
                metadata={"run_id": run_id, "epoch": str(highest)},
            )
        self._epochs[run_id] = epoch
        self._epochs.move_to_end(run_id)
        if len(self._epochs) > MAX_EPOCHS:
            self._epochs.popitem(last=False)

    @property
    def working(self) -> int:
        """How many attempts have no result yet."""
        return sum(attempt.working for attempt in self._attempts.values())

    @property
    def parked_full(self) -> bool:
        """True if so many unacked bytes are parked that no credit may be given."""
        return self._parked_bytes > MAX_PARKED_BYTES

    def recount(self, attempt: Attempt) -> None:
        """Counts the unacked bytes of an attempt anew; a sum over all attempts at each change would cost too much."""
        kept = attempt.channel.pending_bytes if self._attempts.get(attempt.ref.task_id) is attempt else 0
        self._parked_bytes += kept - self._kept_bytes.pop(attempt, 0)
        if kept:
            self._kept_bytes[attempt] = kept

    def expire(self) -> None:
        """Drops results that were not acked within the time that the orchestrator asked for."""
        now = time.monotonic()
        for attempt in self:
            if attempt.finished_at is not None and now - attempt.finished_at > attempt.park_ttl:
                about = logs.task_fields(attempt.ref)
                _log.warning("dropped the result of task %s: it was never acked", attempt.ref.task_id, extra=about)
                self.drop(attempt)

    def handler_ended(self, attempt: Attempt) -> None:
        """Frees the slot of an attempt."""
        self.running.discard(attempt)
        self.abandoned.discard(attempt)
        self.changed()

    def changed(self) -> None:
        """Wakes all waiters of `wait_changed`."""
        self._changed.set()
        self._on_changed()

    async def wait_changed(self) -> None:
        """Returns when an attempt has ended, was dropped, or lost its stream."""
        self._changed.clear()
        await self._changed.wait()

    async def stop(self) -> int:
        """Cancels all handlers without sending results (the orchestrator finds the attempts lost), and waits a moment
        for them to end. Returns how many did not."""
        for attempt in [*self, *self.running]:
            attempt.session = None
            attempt.cancel()
        self._attempts.clear()
        self._kept_bytes.clear()
        self._parked_bytes = 0
        try:
            async with asyncio.timeout(STOP_GRACE):
                while self.running:
                    await self.wait_changed()
        except TimeoutError:
            names = ", ".join(sorted(attempt.ref.task_id for attempt in self.running))
            _log.error("left running handlers behind that cannot be cancelled, of tasks %s", names)
        return len(self.running)
