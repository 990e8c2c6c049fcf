"""A store in the memory of one process: for tests and for trying things out. Leases run on the monotonic clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

from archon import errors
from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon_services.registry.domain import edges
from archon_services.registry.domain.state import Change, State, Update, instance_key
from archon_services.registry.store.feed import Feed
from archon_services.registry.store.port import Registered


class MemoryStore:
    """Use it as an async context manager: leases run out while it is open."""

    def __init__(self, feed: Feed | None = None) -> None:
        self._feed = feed or Feed()
        self._ends: dict[str, float] = {}
        self._sooner = asyncio.Event()
        self._expiring: asyncio.Task[None] | None = None

    async def __aenter__(self) -> MemoryStore:
        self._feed.reset(State(revision=1))
        self._expiring = asyncio.create_task(self._expire_for_ever(), name="registry: leases")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.wait([self._expiring])

    async def register(self, wanted: Registration) -> Registered:
        """See RegistryStore."""
        self._expire()
        update, refused = edges.register(self._feed.state, wanted)
        self._write(update)
        self._renew(wanted)
        return Registered(self._feed.state.instances[wanted.instance_id], wanted.ttl.seconds, refused)

    async def keep_alive(self, instance_ids: Sequence[str]) -> list[int]:
        """See RegistryStore."""
        self._expire()
        left = []
        for instance_id in instance_ids:
            held = self._feed.state.instances.get(instance_id)
            if held is not None:
                self._write(edges.register(self._feed.state, held)[0])
                self._renew(held)
            left.append(held.ttl.seconds if held is not None else 0)
        return left

    async def deregister(self, instance_id: str) -> None:
        """See RegistryStore."""
        self._remove([instance_id])

    async def read(self) -> State:
        """See RegistryStore."""
        self._expire()
        return self._feed.state

    async def pin(self, pinned: Sequence[Edge]) -> Graph:
        """See RegistryStore."""
        self._expire()
        self._write(edges.pin(self._feed.state, pinned))
        return self._feed.graph

    async def unpin(self, pinned: Sequence[Edge]) -> Graph:
        """See RegistryStore."""
        self._write(edges.unpin(self._feed.state, pinned))
        return self._feed.graph

    def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        """See RegistryStore."""
        return self._feed.watch(from_revision)

    def end_watches(self) -> None:
        """See RegistryStore."""
        self._feed.end(errors.Unavailable("this registry is stopping", retry_delay=0.1))

    def _write(self, update: Update) -> None:
        if update:
            self._feed.apply(self._feed.state.revision + 1, update)

    def _renew(self, registration: Registration) -> None:
        self._ends[registration.instance_id] = time.monotonic() + registration.ttl.seconds
        self._sooner.set()

    def _remove(self, instance_ids: Sequence[str]) -> None:
        update: dict[str, None] = {}
        for instance_id in instance_ids:
            self._ends.pop(instance_id, None)
            if instance_id in self._feed.state.instances:
                update[instance_key(instance_id)] = None
            update |= {key: None for key, edge in self._feed.state.edges.items() if instance_id in edge.declared_by}
        self._write(update)

    def _expire(self) -> None:
        now = time.monotonic()
        for instance_id in [name for name, end in self._ends.items() if end <= now]:
            self._remove([instance_id])

    async def _expire_for_ever(self) -> None:
        while True:
            self._expire()
            self._sooner.clear()
            first = min(self._ends.values(), default=time.monotonic() + 3600)
            try:
                await asyncio.wait_for(self._sooner.wait(), max(0.01, first - time.monotonic()))
            except TimeoutError:
                pass
