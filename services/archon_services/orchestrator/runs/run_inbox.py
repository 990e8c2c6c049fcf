"""The inputs of a run that wait to be decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from archon.errors import ResourceExhausted
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.ports import Delivery

MAX_INBOX: Final = 1_000
MAX_STEP_BYTES: Final = 8 * 1024 * 1024
"""A step takes no further input above this size."""

MAX_STEP_INPUTS: Final = 64
"""Inputs of one step: a run with thousands of them gives way to other runs in between."""


class RunInbox:
    """A queue of deliveries. Frames of agents are bounded by the live attempts and their bytes in flight, commands by
    MAX_INBOX."""

    __slots__ = ("_deliveries", "_posted", "_run_id")

    def __init__(self, run_id: str, first: Iterable[Delivery]) -> None:
        self._run_id = run_id
        self._deliveries = deque(first)
        self._posted = {delivery.posted for delivery in self._deliveries if delivery.posted}
        """Commands that have arrived already: they are delivered again until a step executes them."""

    def __len__(self) -> int:
        return len(self._deliveries)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)

    def put(self, delivery: Delivery) -> bool:
        """Queues a delivery; returns False for a command that has arrived already. Raises ResourceExhausted if too many
        are queued and it is a command of a caller."""
        if len(self._deliveries) >= MAX_INBOX and isinstance(delivery.given, inp.Command):
            raise ResourceExhausted(f"too many requests for run {self._run_id} are queued", retry_delay=1.0)
        if delivery.posted:
            if delivery.posted in self._posted:
                return False
            self._posted.add(delivery.posted)
        self._deliveries.append(delivery)
        return True

    def put_first(self, *deliveries: Delivery) -> None:
        """Queues deliveries before all others, in this order."""
        self._deliveries.extendleft(reversed(deliveries))

    def take(self) -> Sequence[Delivery]:
        """Takes queued deliveries, as many as one step may hold."""
        queued, size = self._deliveries, 0
        if len(queued) == 1:  # as nearly always
            return (queued.popleft(),)
        batch: list[Delivery] = []
        while queued and size < MAX_STEP_BYTES and len(batch) < MAX_STEP_INPUTS:
            delivery = queued.popleft()
            batch.append(delivery)
            size += delivery.size
        return batch

    def clear(self) -> None:
        """Drops the queued deliveries."""
        self._deliveries.clear()
