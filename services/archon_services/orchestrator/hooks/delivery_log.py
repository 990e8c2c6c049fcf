"""The list of deliveries, which is written behind them: many in one change of their hook.

It is for people. One run for each delivery does not depend on it, except for senders that sign no id: their deliveries
are claimed before the run is submitted (`HookStore.claim`). A process that dies loses the last second of the list.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss
from archon.telemetry import metrics
from archon_services.orchestrator.hooks.hook import Delivery, DeliveryState, Hook
from archon_services.orchestrator.hooks.store import HookStore

_log = logging.getLogger(__name__)

INTERVAL: Final = 0.5
"""Seconds between two writes of the list."""

MAX_PENDING: Final = 1_000
"""Deliveries of a hook, and hooks, that wait to be written; further ones are counted alone."""

TIMEOUT: Final = 10.0
"""Seconds for the deliveries of one hook."""


@dataclass(slots=True)
class _Pending:
    hook: Hook
    deliveries: list[Delivery] = field(default_factory=list)
    counts: Counter[DeliveryState] = field(default_factory=Counter)


class DeliveryLog:
    """Writes deliveries into `store` until `close`, which writes the last ones."""

    def __init__(self, store: HookStore) -> None:
        self._store = store
        self._pending: dict[str, _Pending] = {}
        self._woken = asyncio.Event()
        self._loop = BackgroundLoop("deliveries of hooks", self._run, expected=(ArchonError, TimeoutError))

    def start(self) -> None:
        """Writes until `close`."""
        self._loop.start()

    async def close(self) -> None:
        """Writes the deliveries that wait. Idempotent."""
        await self._loop.close()
        try:
            await self.write()
        except (ArchonError, TimeoutError) as error:
            _log.warning("the last deliveries of hooks are not in their lists: %s", error)

    def note(self, hook: Hook, delivery: Delivery) -> None:
        """Takes a delivery into the list of its hook. A repeated one keeps the entry of its first time."""
        count(delivery.state.name.lower())
        pending = self._pending.get(hook.uid)
        if pending is None:
            if len(self._pending) >= MAX_PENDING:
                return
            pending = self._pending[hook.uid] = _Pending(hook)
        pending.counts[delivery.state] += 1
        if delivery.state is not DeliveryState.REPEATED and len(pending.deliveries) < MAX_PENDING:
            pending.deliveries.append(delivery)
        self._woken.set()

    async def write(self) -> None:
        """Writes the deliveries that wait. Raises the errors of the journal; they wait on then."""
        for uid in list(self._pending):
            pending = self._pending.pop(uid)
            try:
                async with asyncio.timeout(TIMEOUT):
                    await self._store.record(pending.hook, pending.deliveries, pending.counts)
            except DataLoss as error:
                _log.error("%s: its deliveries are not listed", error)
            except BaseException:
                self._restore(uid, pending)
                raise

    def _restore(self, uid: str, pending: _Pending) -> None:
        later = self._pending.get(uid)
        if later is not None:
            pending.deliveries = (pending.deliveries + later.deliveries)[-MAX_PENDING:]
            pending.counts.update(later.counts)
        self._pending[uid] = pending
        self._woken.set()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(INTERVAL)  # so that many are written at once
            self._woken.clear()
            await self.write()
            self._loop.report_progress()


def count(state: str) -> None:
    """Counts a delivery by its state in the metric."""
    if (recorder := metrics.recorder()) is not None:
        recorder.add(metrics.HOOK_DELIVERIES, (state,))
