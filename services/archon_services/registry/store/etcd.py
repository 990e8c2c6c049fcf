"""The store in etcd. Values are proto JSON, readable with etcdctl; an instance's keys hang on its lease.

Each transaction that writes a registration or a pin compares and bumps the key `graph`: of two that were computed from
the same state one fails and looks again, so no two halves of a cycle get in side by side.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from aetcd import rpc

from archon import context, errors
from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon_services.registry.domain import edges
from archon_services.registry.domain.state import Change, State, Update, instance_key
from archon_services.registry.store.etcd_client import Etcd, members, range_end
from archon_services.registry.store.feed import Feed
from archon_services.registry.store.port import Registered
from archon_services.registry.store.records import GRAPH, Listing, Records, encode

LIMIT: Final = 4.5
"""Seconds that any call takes at most, retries and waiting included."""

LONG: Final = 30.0
"""Seconds without etcd after which watchers are sent away."""

_TRIES: Final = 20

_log = logging.getLogger(__name__)


@asynccontextmanager
async def _bounded() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(context.timeout(LIMIT)):
            yield
    except TimeoutError:
        raise errors.Unavailable("etcd doesn't answer in time", retry_delay=1.0) from None


class EtcdStore:
    """Use it as an async context manager. It opens whether or not etcd is there, and heals when etcd comes back."""

    def __init__(self, etcd: str, *, prefix: str = "/archon/v1", feed: Feed | None = None) -> None:
        self._members = members(etcd)
        self._prefix = f"{prefix}/".encode()
        self._feed = feed or Feed()
        self._records = Records(self._prefix)
        self._writing = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EtcdStore:
        self._etcd = Etcd(self._members)
        self._following = asyncio.create_task(self._follow(), name="registry: watch of etcd")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await self._etcd.close()

    async def register(self, wanted: Registration) -> Registered:
        """See RegistryStore."""
        async with _bounded():
            return await self._renewed(wanted) or await self._register(wanted.instance_id, wanted)

    async def keep_alive(self, instance_ids: Sequence[str]) -> list[int]:
        """See RegistryStore."""
        async with _bounded():
            leases = await self._etcd.leases([self._key(instance_key(name)) for name in instance_ids])
            renewed = iter(await self._etcd.renew([lease for lease in leases if lease]))
            left = [next(renewed) if lease else 0 for lease in leases]
            for name in self._acceptable().intersection(instance_ids):
                try:
                    await self._register(name, None)
                except errors.ArchonError as error:  # the lease is renewed all the same; the next beat tries again
                    _log.info("the refused edges of %s could not be offered again: %s", name, error)
            return left

    async def deregister(self, instance_id: str) -> None:
        """See RegistryStore."""
        async with _bounded():
            if lease := (await self._etcd.leases([self._key(instance_key(instance_id))]))[0]:
                await self._etcd.revoke(lease)

    async def read(self) -> State:
        """See RegistryStore."""
        async with _bounded():
            return (await self._list()).state

    async def pin(self, pinned: Sequence[Edge]) -> Graph:
        """See RegistryStore."""
        return await self._change_pins(lambda state: edges.pin(state, pinned))

    async def unpin(self, pinned: Sequence[Edge]) -> Graph:
        """See RegistryStore."""
        return await self._change_pins(lambda state: edges.unpin(state, pinned))

    async def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        """See RegistryStore."""
        async with _bounded():
            await self._feed.ready.wait()
        async with aclosing(self._feed.watch(from_revision)) as changes:
            async for change in changes:
                yield change

    def end_watches(self) -> None:
        """See RegistryStore."""
        self._feed.end(errors.Unavailable("this registry is stopping", retry_delay=0.1))

    def _key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    async def _list(self) -> Listing:
        return self._records.listing(await self._etcd.range(self._prefix))

    def _acceptable(self) -> set[str]:
        """Instances of whose refused edges one could be accepted now."""
        return {name for refused in self._feed.graph.refused if not refused.cycle for name in refused.edge.declared_by}

    async def _renewed(self, wanted: Registration) -> Registered | None:
        """The common case, in which nothing is written: it stands already, and its lease lives. None: look closer."""
        kv = await self._etcd.get(self._key(instance_key(wanted.instance_id)))
        held = self._feed.state.instances.get(wanted.instance_id)
        if kv is None or held is None or held.revision != kv.mod_revision or not edges.same(held, wanted):
            return None
        if wanted.instance_id in self._acceptable():
            return None
        if not (left := (await self._etcd.renew([kv.lease]))[0]):
            return None
        refused = [edge for edge in self._feed.graph.refused if wanted.instance_id in edge.edge.declared_by]
        return Registered(held, left, refused)

    async def _register(self, instance_id: str, wanted: Registration | None) -> Registered:
        """Registers `wanted`; None: offers the edges of what is registered again."""
        granted: tuple[int, int] | None = None
        async with self._writing:
            for attempt in range(_TRIES):
                await _jitter(attempt)
                listing = await self._list()
                held = listing.state.instances.get(instance_id)
                registration = wanted or held
                if registration is None:
                    raise errors.LeaseExpired(f"{instance_id} is not registered")
                update, refused = edges.register(listing.state, registration)
                if held is None:
                    granted = granted or await self._etcd.grant(registration.ttl.seconds)
                    lease, left = granted
                elif held.ttl != registration.ttl:
                    await self._etcd.revoke(listing.leases[instance_id])
                    continue
                else:
                    lease = listing.leases[instance_id]
                    left = (await self._etcd.renew([lease]))[0]
                    if not left:
                        continue
                try:
                    revision = await self._write(update, listing, lease)
                except errors.LeaseExpired:
                    granted = None
                    continue
                if revision:
                    return Registered(listing.state.changed(update, revision).instances[instance_id], left, refused)
        raise errors.Unavailable("too many others write at the same moment", retry_delay=0.5)

    async def _change_pins(self, plan: Callable[[State], Update]) -> Graph:
        async with _bounded(), self._writing:
            for attempt in range(_TRIES):
                await _jitter(attempt)
                listing = await self._list()
                update = plan(listing.state)
                if revision := await self._write(update, listing):
                    return edges.graph(listing.state.changed(update, revision))
        raise errors.Unavailable("too many others write at the same moment", retry_delay=0.5)

    async def _write(self, update: Update, listing: Listing, lease: int = 0) -> int:
        """Writes what was computed from `listing`. The revision written, or read where there is nothing to write; 0
        where somebody else wrote meanwhile."""
        if not update:
            return listing.state.revision
        graph = self._key(GRAPH)
        ops: list[Any] = [rpc.RequestOp(request_put=rpc.PutRequest(key=graph, value=b"{}"))]
        for name, record in update.items():
            key = self._key(name)
            if record is not None:
                ops.append(rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=encode(record), lease=lease)))
            else:
                end = range_end(key) if name.endswith("/") else b""
                ops.append(rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key, range_end=end)))
        unchanged = rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=graph, mod_revision=listing.graph)
        answer = await self._etcd.txn([unchanged], ops)
        return int(answer.header.revision) if answer.succeeded else 0

    async def _follow(self) -> None:
        """Keeps the feed abreast of etcd: list, watch from there; when that breaks, again."""
        last_heard, failures = time.monotonic(), 0
        while True:
            try:
                state = await self.read()
                self._feed.reset(state)
                failures = 0
                async with aclosing(self._etcd.watch(self._prefix, state.revision + 1)) as batches:
                    async for events in batches:
                        for revision, update in self._records.revisions(events):
                            self._feed.apply(revision, update)
                        last_heard = time.monotonic()
            except errors.ArchonError as error:
                level = logging.DEBUG if failures else logging.WARNING
                _log.log(level, "etcd can't be followed, trying until it can: %s", error)
            except Exception:  # noqa: BLE001 - whatever it is, the registry goes on following
                _log.exception("a fault while following etcd, trying again")
            if self._feed.ready.is_set():
                self._feed.ready.clear()
                last_heard = time.monotonic()
            elif time.monotonic() - last_heard > LONG:
                self._feed.end(errors.Unavailable("etcd can't be reached", retry_delay=1.0))
            failures += 1
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(1.0, 0.1 * 2.0 ** min(failures, 10)))


async def _jitter(attempt: int) -> None:
    if attempt:
        await asyncio.sleep(random.uniform(0, min(0.1, 0.005 * 2**attempt)))
