"""Publishes answers from the journal's outbox in the shared memory. No run waits for the memory service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from archon import context
from archon.background import BackgroundLoop
from archon.errors import Aborted, ArchonError, DataLoss, Internal, OperationCancelled, Unauthenticated
from archon.memory import MemoryGraphClient, PropagationPolicy, PublishItem
from archon.principal import DEFAULT_TENANT
from archon.telemetry import metrics
from archon.telemetry.spans import without_client_spans
from archon.wire import described, policy_from_proto, to_seconds
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import Journal, OutboxRow
from archon_services.orchestrator.observability.context import calls_for
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.shared_memory.held_scopes import OUTAGES, HeldScopes

_log = logging.getLogger(__name__)

MAX_BACKOFF: Final = 5.0
PAGE: Final = 100
"""Publications that are read at a time."""

PUBLISH_TIMEOUT: Final = 5.0
MAX_KEEP: Final = 3650 * 86_400
_TRANSIENT: Final = (*OUTAGES, Internal, Aborted, OperationCancelled, Unauthenticated)
"""Errors of the memory service after which a publication is tried again; any other one of the tree is final."""


class OutboxPublisher:
    """Background loops that publish the content of the outbox; `wake` tells them of new rows.

    A publication that fails is tried again apart from other scopes, which never wait for it; the later ones of its
    scope do. One that keeps failing while others succeed is given up: the answer stays in its run. `keep` is how long,
    in seconds, the shared memory keeps answers that were published in no session: their run is deleted from the journal
    by then."""

    def __init__(
        self,
        journal: Journal,
        runs: Runs,
        target: str,
        *,
        keep: float,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._journal = journal
        self._runs = runs
        self._client = MemoryGraphClient(target)
        self._keep = max(1, min(int(keep), MAX_KEEP))
        self._sleep = sleep
        self._news = asyncio.Event()
        self._held = HeldScopes()
        self._held_news = asyncio.Event()
        self._measured = metrics.recorder() is not None
        self._oldest = 0.0
        """Wall seconds of the publication that is published next, 0 if there is none, or nothing is measured."""

        self._pending = 0
        self._loops = (
            BackgroundLoop("outbox", self._run, backoff_max=MAX_BACKOFF, expected=OUTAGES, sleep=sleep),
            BackgroundLoop("outbox retries", self._run_retries, backoff_max=MAX_BACKOFF, sleep=sleep),
        )

    @property
    def pending(self) -> int:
        """The publications in the outbox; those that an earlier process left count as 100 at most until they are read,
        and all of a scope that waits after a failure as one."""
        return self._pending + len(self._held)

    def start(self) -> None:
        """Starts with the rows that an earlier process left in the outbox."""
        for loop in self._loops:
            loop.start()

    def wake(self, added: int = 0) -> None:
        """Has the loop look into the outbox, to which so many publications were added."""
        self._pending += added
        self._news.set()

    def age(self, now: float) -> float:
        """Returns the age of the oldest publication in seconds, 0 if there is none; `now` is in wall seconds."""
        oldest = self._oldest
        return max(0.0, now - oldest) if oldest else 0.0

    async def close(self) -> None:
        """Stops; unpublished answers stay in the outbox. Idempotent."""
        for loop in self._loops:
            await loop.close()
        await self._client.close()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            while rows := await self._journal.outbox(self._runs.owner, PAGE, without=self._held.scopes):
                self._pending = len(rows) if len(rows) < PAGE else max(self._pending, PAGE)
                for row in rows:
                    self._pending -= 1
                    if row.publication.scope in self._held:
                        continue
                    if self._measured:
                        self._oldest = _time_of(row) or self._oldest
                    if isinstance(error := await self._publish(row), OUTAGES):
                        raise error
                    self._loops[0].report_progress()
            self._pending = 0
            if not self._held:
                self._oldest = 0.0
            await self._news.wait()

    async def _run_retries(self) -> None:
        while True:
            self._held_news.clear()
            if not self._held:
                await self._held_news.wait()
            await self._sleep(min(MAX_BACKOFF, 0.1 * 2.0 ** min(self._held.tries, 10)))
            for scope in self._held:
                await self._publish_scope(scope)

    async def _publish_scope(self, scope: str) -> None:
        """Publishes the rows of a scope, until a publication fails."""
        while rows := await self._journal.outbox(self._runs.owner, PAGE, scope=scope):
            for row in rows:
                if await self._publish(row) is not None:
                    return
        self._held.free(scope)
        self._news.set()

    async def _publish(self, row: OutboxRow) -> Exception | None:
        """Publishes a row, or gives it up, and deletes it. Returns the error if it must be tried again."""
        try:
            await self._send(row)
            self._held.succeeded()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one publication must not stop the others
            is_final = isinstance(error, ArchonError) and not isinstance(error, _TRANSIENT)
            if not is_final and not self._held.failed(row.publication.scope, row.row_id, error):
                self._held_news.set()
                return error
            _log.error(
                "event %d of run %s is not published in the shared memory: %s",
                row.publication.seq,
                row.run_id,
                error,
                extra=_fields(row),
                exc_info=None if isinstance(error, ArchonError) else error,
            )
        await self._journal.published([row.row_id])
        return None

    async def _send(self, row: OutboxRow) -> None:
        publication = row.publication
        item = _item(row, ttl=self._keep if publication.scope == row.run_id else None)
        with self._on_behalf(row, await self._tenant_of(row.run_id)):
            published = await self._client.publish_items([item], scope=publication.scope, timeout=PUBLISH_TIMEOUT)
        given = inp.PublishedIn(publication.task_id, publication.seq, published[0].version)
        self._runs.deliver(row.run_id, Delivery(given, quiet=True))

    async def _tenant_of(self, run_id: str) -> str:
        run = self._runs.held(run_id)
        if run is not None and run.submission is not None:
            return run.submission.tenant
        stored = await self._journal.run(run_id)
        return stored.tenant if stored is not None else DEFAULT_TENANT

    @contextmanager
    def _on_behalf(self, row: OutboxRow, tenant: str) -> Iterator[None]:
        """Has calls be of the run's tenant, and join the trace of the run, below the attempt that published, while
        the run is known here. They have no span here: it would be lost if this process died, and the spans below it
        too."""
        run = self._runs.held(row.run_id)
        task = run.tasks.get(row.publication.task_id) if run is not None else None
        call = calls_for(run, task) if run is not None and task is not None else context.CallContext()
        with context.serving(replace(call, tenant=tenant)), without_client_spans():
            yield


def _time_of(row: OutboxRow) -> float:
    """Returns when the answer or item was stored, in wall seconds; 0 if the step cannot be read."""
    if row.damage is not None or row.content is not None:
        return 0.0
    try:
        times = [event.time for event in events_of(row.data, row.run_id) if event.seq == row.publication.seq]
    except DataLoss:
        return 0.0
    return to_seconds(times[0]) if times else 0.0


def _fields(row: OutboxRow) -> dict[str, str]:
    """Returns the fields of a log line about an answer."""
    return {"run_id": row.run_id, "task_id": row.publication.task_id}


def _item(row: OutboxRow, *, ttl: float | None) -> PublishItem:
    """Returns the item to publish of the event that the row names: the text of an answer, or an item. Raises DataLoss
    if the step cannot be read."""
    if row.damage is not None:
        raise row.damage
    publication = row.publication
    content, policy, metadata = row.content or "", PropagationPolicy.FINAL_RESPONSE_ONLY, dict[str, str]()
    for event in events_of(row.data, row.run_id) if row.content is None else ():
        if event.seq == publication.seq and event.HasField("item_published"):
            published = event.item_published
            content, policy = described(published.parts), policy_from_proto(published.policy)
            metadata = dict(published.metadata)
        elif event.seq == publication.seq:
            content = described(event.result.output)
    return PublishItem(
        publication.role,
        content,
        metadata,
        policy,
        ttl,
        row.run_id,
        row.epoch,
        publication.seq,
        publication.task_id,
    )
