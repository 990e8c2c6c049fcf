"""Delivery of push notifications: each event of a task to each webhook, at least once and in order.

One replica delivers to a webhook, under a lease in the config itself. If its process dies, another one goes on after
the last event that was delivered. A webhook that does not answer is tried again for some minutes; then the event is
given up.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict

from archon import context
from archon.background import BackgroundLoop
from archon.client import Client
from archon.errors import Aborted, ArchonError, DeadlineExceeded, RunExpired, Unavailable, UnknownRun
from archon_services.gateway.a2a.events import TaskEvent, TaskEvents, closing_events
from archon_services.gateway.a2a.push_store import PushStore, Stored
from archon_services.gateway.a2a.webhook import Webhooks

_log = logging.getLogger(__name__)

LEASE: Final = 30.0
"""Seconds after which another replica goes on with a webhook whose replica is lost."""

SCAN: Final = 10.0
"""Seconds between two searches for webhooks that no replica delivers to."""

MAX_DELIVERIES: Final = 500
"""Webhooks that one replica delivers to at a time. Further ones wait for a place, or for another replica."""

DELAYS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 60.0, 60.0)
"""Seconds between the attempts to deliver an event, before it is given up."""

Sleep = Callable[[float], Any]


class PushDelivery:
    """Delivers to webhooks from `start` to `close`. `runs` is a client with the gateway's own credentials."""

    def __init__(
        self,
        store: PushStore,
        runs: Client,
        webhooks: Webhooks,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._runs = runs
        self._webhooks = webhooks
        self._clock = clock
        self._sleep = sleep
        self._name = secrets.token_hex(8)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._scanning = BackgroundLoop("a2a push notifications", self._scan, backoff_max=SCAN)

    def start(self) -> None:
        """Begins to look for webhooks that no replica delivers to."""
        self._scanning.start()

    async def close(self) -> None:
        """Ends all deliveries; other replicas go on with them. Idempotent."""
        await self._scanning.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)

    def deliver(self, stored: Stored) -> None:
        """Begins to deliver to a webhook, unless this replica does already or has no place."""
        place = f"{stored.scope}/{stored.key}"
        if stored.config.over or place in self._tasks or len(self._tasks) >= MAX_DELIVERIES:
            return
        task = asyncio.create_task(self._guarded(stored), name=f"push to the webhook of {stored.config.run_id}")
        self._tasks[place] = task
        task.add_done_callback(lambda _: self._tasks.pop(place, None))

    async def _scan(self) -> None:
        while True:
            async with aclosing(self._store.abandoned()) as abandoned:  # type: ignore[type-var]
                async for stored in abandoned:
                    self.deliver(stored)
            self._scanning.report_progress()
            await self._sleep(SCAN)

    async def _guarded(self, stored: Stored) -> None:
        try:
            await _Delivery(self, stored).run()
        except Aborted:
            pass  # another replica delivers, or the config was deleted
        except UnknownRun:
            await self._forget(stored)
        except ArchonError as error:
            _log.warning("push notifications of task %s go on later: %s", stored.config.run_id, error)
        except Exception:  # noqa: BLE001 - the next search begins anew
            _log.exception("push notifications of task %s go on later", stored.config.run_id)

    async def _forget(self, stored: Stored) -> None:
        try:
            if (current := await self._store.read(stored.scope, stored.key)) is not None:
                await self._store.remove(current)
        except ArchonError as error:
            _log.info("a push notification config of task %s stays: %s", stored.config.run_id, error)


class _Delivery:
    """The events of one task to one webhook."""

    def __init__(self, owner: PushDelivery, stored: Stored) -> None:
        self._owner = owner
        self._stored = stored
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        config = self._stored.config
        context.enter(context.CallContext())  # not that of the request in which the config was made
        await self._update(owner=self._owner._name)
        renewing = asyncio.create_task(self._renew(), name="lease of a webhook")
        following = asyncio.create_task(self._follow(config.tenant), name="events for a webhook")
        try:
            await asyncio.wait((renewing, following), return_when=asyncio.FIRST_COMPLETED)
            for task in (following, renewing):
                if task.done():
                    task.result()
        finally:
            for task in (renewing, following):
                task.cancel()
            await asyncio.wait((renewing, following))

    async def _renew(self) -> None:
        while True:
            await self._owner._sleep(LEASE / 3)
            try:
                await self._update()
            except (Unavailable, DeadlineExceeded) as error:
                _log.info("the lease of a webhook was not renewed: %s", error)

    async def _follow(self, tenant: str) -> None:
        config = self._stored.config
        with context.serving(replace(context.CallContext(), tenant=tenant)):
            events = self._owner._runs.watch(config.run_id, durable_only=True)
        folded = TaskEvents(config.context_id, config.seq, pieces=False)
        try:
            async with aclosing(events):
                while True:
                    with context.serving(replace(context.CallContext(), tenant=tenant)):
                        event = await anext(events, None)
                    if event is None:
                        break
                    sent = False
                    for out in folded.apply(event):
                        await self._post(out)
                        sent = True
                    if sent:
                        await self._update(seq=event.seq)
        except RunExpired:  # it has ended, and the answers and the last status are in its summary
            await self._end(folded, tenant)
            return
        if folded.view.ended:
            await self._end(folded, tenant)

    async def _end(self, folded: TaskEvents, tenant: str) -> None:
        with context.serving(replace(context.CallContext(), tenant=tenant)):
            run = await self._owner._runs.get(self._stored.config.run_id)
        for out in closing_events(run, folded.sent):
            await self._post(out)
        async with self._lock:
            await self._owner._store.remove(self._stored)

    async def _post(self, out: TaskEvent) -> None:
        config = self._stored.config
        content = MessageToDict(to_stream_response(out))
        for delay in (*DELAYS, None):
            try:
                await self._owner._webhooks.post(config.url, content, config.headers)
                return
            except (Unavailable, DeadlineExceeded) as error:
                if delay is None:
                    _log.warning("an event of task %s is given up: %s", config.run_id, error)
                    return
                await self._owner._sleep(delay * random.uniform(0.5, 1.0))
            except ArchonError as error:
                _log.warning("an event of task %s was not delivered: %s", config.run_id, error)
                return

    async def _update(self, **changes: Any) -> None:
        """Changes the config, and renews the lease. Raises Aborted if another replica has taken it, or it was
        deleted."""
        async with self._lock:
            owner = self._owner
            current = await owner._store.read(self._stored.scope, self._stored.key)
            if current is None:
                raise Aborted("the config was deleted")
            config = current.config
            if config.owner not in ("", owner._name) and config.until >= owner._clock():
                raise Aborted("another replica delivers to the webhook")
            self._stored = await owner._store.update(current, **changes, until=owner._clock() + LEASE)
