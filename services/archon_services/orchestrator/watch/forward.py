"""Watches of runs that another replica owns: its events are forwarded, and gaps are read from the journal."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol, cast

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.background import BackgroundLoop
from archon.channel import connect
from archon.errors import ArchonError
from archon.interceptors import translated
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.watch.hub import WatchHub

_log = logging.getLogger(__name__)

POLL_INTERVAL: Final = 0.25
"""Seconds between two reads of the journal while the owner cannot be watched."""

RELAYED: Final = ("archon-relayed", "1")
"""Metadata of a forwarded watch: a replica that is not the owner either does not forward it again."""


class Addresses(Protocol):
    """Knows where other incarnations are reached."""

    def address_of(self, owner: str) -> str: ...


class LocalRuns(Protocol):
    """Knows which runs this replica owns."""

    @property
    def watchers(self) -> WatchHub: ...

    def holds(self, run_id: str) -> bool: ...


class WatchForwarder:
    """One forwarded watch for each run that is watched here and owned by another replica."""

    def __init__(self, journal: Journal, runs: LocalRuns, owners: Addresses) -> None:
        self._journal = journal
        self._runs = runs
        self._owners = owners
        self._followers: Counter[str] = Counter()
        self._loops: dict[str, BackgroundLoop] = {}

    @asynccontextmanager
    async def following(self, run_id: str, *, relayed: bool) -> AsyncIterator[None]:
        """Keeps the run's watchers of this replica up to date while the block lasts, whichever replica owns the run.
        `relayed`: the watcher is another replica, which reads the journal itself."""
        if relayed or not self._journal.shared:
            yield
            return
        self._followers[run_id] += 1
        if run_id not in self._loops:
            body = functools.partial(self._forward, run_id)
            started = self._loops[run_id] = BackgroundLoop(f"watch forward of {run_id}", body, backoff_max=1.0)
            started.start()
        try:
            yield
        finally:
            self._followers[run_id] -= 1
            if not self._followers[run_id]:
                del self._followers[run_id]
                if (loop := self._loops.pop(run_id, None)) is not None:  # the replica may have stopped meanwhile
                    await loop.close(timeout=1.0)

    async def close(self) -> None:
        """Ends the forwarded watches, within a second each. Idempotent."""
        loops, self._loops = list(self._loops.values()), {}
        for loop in loops:
            await loop.close(timeout=1.0)

    async def _forward(self, run_id: str) -> None:
        while True:
            try:
                if not self._runs.holds(run_id):
                    await self._from_owner(run_id)
            except ArchonError as error:
                _log.debug("the owner of run %s cannot be watched: %s", run_id, error, extra={"run_id": run_id})
            if not self._runs.holds(run_id):
                self._runs.watchers.refresh(run_id)
            await asyncio.sleep(POLL_INTERVAL)

    async def _from_owner(self, run_id: str) -> None:
        """Forwards the owner's events until its watch ends."""
        row = await self._journal.run(run_id)
        address = self._owners.address_of(row.owner) if row is not None and not row.ended_at else ""
        if row is None or not address:
            return
        async with connect(address) as channel:
            stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
            request = pb.WatchRunRequest(run_id=run_id, after_seq=row.last_seq)
            call = stub.WatchRun(request, metadata=(RELAYED,))
            known = row.last_seq
            async for message in cast(AsyncIterator[pb.WatchRunResponse], translated(call)):
                self._runs.watchers.publish(run_id, list(message.events), known)
                known = max([known, *(event.seq for event in message.events)])
