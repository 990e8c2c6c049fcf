"""The tasks that an agent holds: under way, or finished and parked until the result is acked.

They belong to the agent, not to a stream: a stream that breaks takes none of them along.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from archon.agent.attempt import HeldTask
from archon.api.common.v1 import common_pb2
from archon.errors import Aborted

_log = logging.getLogger(__name__)

MAX_EPOCHS: Final = 10_000
MAX_OVER: Final = 10_000
MAX_PARKED_BYTES: Final = 64 * 1024 * 1024
STOP_GRACE: Final = 1.0


class TaskTable:
    """All tasks of an agent. `running` are the handlers that haven't ended, also those whose task is over without them:
    no more than `capacity` of them. `on_changed` is called when a task has ended or was forgotten."""

    def __init__(self, capacity: int, on_changed: Callable[[], None]) -> None:
        self.capacity = capacity
        self.running: set[HeldTask] = set()
        self.abandoned: set[HeldTask] = set()
        """Handlers that go on although their task is over: cancelled in vain."""
        self._held: dict[str, HeldTask] = {}
        self._kept_bytes: dict[HeldTask, int] = {}
        self._parked_bytes = 0
        self._epochs: OrderedDict[str, int] = OrderedDict()
        self._over: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._changed = asyncio.Event()
        self._on_changed = on_changed

    def __iter__(self) -> Iterator[HeldTask]:
        return iter(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def get(self, ref: common_pb2.TaskRef) -> HeldTask | None:
        """The task under this very attempt, if it is held."""
        held = self._held.get(ref.task_id)
        return held if held is not None and held.ref.attempt == ref.attempt else None

    def newest(self, task_id: str) -> HeldTask | None:
        """The task under whatever attempt is held."""
        return self._held.get(task_id)

    def add(self, held: HeldTask) -> None:
        """Takes a task in. An older attempt of the same task is stopped and forgotten: its result couldn't count."""
        older = self._held.get(held.ref.task_id)
        if older is not None:
            older.session = None
            older.cancel()
        self._held[held.ref.task_id] = held
        if older is not None:
            self.recount(older)

    def drop(self, held: HeldTask) -> None:
        """Forgets a task: its result was acked, or doesn't count. That it was, is remembered for a while."""
        self.done_with(held.ref)
        if self._held.get(held.ref.task_id) is held:
            del self._held[held.ref.task_id]
            self.recount(held)
        held.session = None
        held.cancel()
        self.changed()

    def done_with(self, ref: common_pb2.TaskRef) -> None:
        """The attempt is over here, or was never taken."""
        self._over[ref.task_id, ref.attempt] = None
        if len(self._over) > MAX_OVER:
            self._over.popitem(last=False)

    def was_done_with(self, ref: common_pb2.TaskRef) -> bool:
        """True where this very attempt was over before: a late copy of its assignment is no new task."""
        return (ref.task_id, ref.attempt) in self._over

    def check_epoch(self, ref: common_pb2.TaskRef) -> None:
        """Raises Aborted / STALE_EPOCH below the highest epoch seen for the run; remembers a higher one."""
        highest = self._epochs.get(ref.run_id, 0)
        if ref.epoch < highest:
            raise Aborted(
                f"epoch {ref.epoch} of run {ref.run_id} is over, {highest} owns it",
                reason="STALE_EPOCH",
                metadata={"run_id": ref.run_id, "epoch": str(highest)},
            )
        self._epochs[ref.run_id] = ref.epoch
        self._epochs.move_to_end(ref.run_id)
        if len(self._epochs) > MAX_EPOCHS:
            self._epochs.popitem(last=False)

    @property
    def working(self) -> int:
        """How many tasks have no result yet."""
        return sum(held.working for held in self._held.values())

    @property
    def lost_capacity(self) -> int:
        """How many handlers run on though their task is over: cancelled in vain."""
        return len(self.abandoned)

    @property
    def parked_full(self) -> bool:
        """True where so much is parked that no credit may be given."""
        return self._parked_bytes > MAX_PARKED_BYTES

    def recount(self, held: HeldTask) -> None:
        """Counts the unacked bytes of a task anew; a sum over all tasks at each change would cost too much."""
        kept = held.channel.pending_bytes if self._held.get(held.ref.task_id) is held else 0
        self._parked_bytes += kept - self._kept_bytes.pop(held, 0)
        if kept:
            self._kept_bytes[held] = kept

    def expire(self) -> None:
        """Forgets results that nobody acked within the time that the orchestrator asked for."""
        now = time.monotonic()
        for held in self:
            if held.finished_at is not None and now - held.finished_at > held.park_ttl:
                _log.warning("result of task %s was never acked, forgotten", held.ref.task_id)
                self.drop(held)

    def left(self, held: HeldTask) -> None:
        """A handler has ended."""
        self.running.discard(held)
        self.abandoned.discard(held)
        self.changed()

    def changed(self) -> None:
        """Wakes whoever waits for tasks to end."""
        self._changed.set()
        self._on_changed()

    async def wait_changed(self) -> None:
        """Returns when a task has ended, was dropped, or lost its stream."""
        self._changed.clear()
        await self._changed.wait()

    async def stop(self) -> int:
        """Cancels what is under way, tells nobody (whoever waits for it finds it lost), and waits a moment for the
        handlers to end. Returns how many didn't."""
        for held in [*self, *self.running]:
            held.session = None
            held.cancel()
        self._held.clear()
        self._kept_bytes.clear()
        self._parked_bytes = 0
        try:
            async with asyncio.timeout(STOP_GRACE):
                while self.running:
                    await self.wait_changed()
        except TimeoutError:
            names = ", ".join(sorted(held.ref.task_id for held in self.running))
            _log.error("handlers that can't be cancelled are left behind, of tasks %s", names)
        return len(self.running)
