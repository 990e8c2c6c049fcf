"""Store in etcd. Values are proto JSON, readable with etcdctl; the keys of an instance are attached to its lease.

Every transaction that writes a registration or a pin compares and bumps the key `graph`. Of two transactions computed
from the same state, one fails and is computed again, so that two halves of a cycle are never written concurrently.
Between two writes of `graph`, keys can only disappear, with their lease: edges together with the instance that
declares them. So if etcd holds the same `graph` and as many instances and pins as the view, the view is current, and
nothing else has to be read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from aetcd import rpc

from archon import context, errors
from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon.background import BackgroundLoop
from archon.failure_kinds import STORAGE
from archon.principal import DEFAULT_TENANT
from archon_services.registry.domain.capacity import Capacity
from archon_services.registry.domain.edges import (
    build_graph,
    plan_pins,
    plan_registration,
    plan_unpins,
)
from archon_services.registry.domain.queries import is_of
from archon_services.registry.domain.registration_tokens import may_renew, owns, refusal
from archon_services.registry.domain.state import Change, State, Update, host_key, instance_key
from archon_services.registry.store.etcd_client import EtcdClient, parse_members, range_end
from archon_services.registry.store.port import Registered
from archon_services.registry.store.records import GRAPH, Listing, Records, encode
from archon_services.registry.store.view import RegistryView

CALL_LIMIT: Final = 4.5
"""Seconds that any call takes at most, retries and waiting included."""

OUTAGE_LIMIT: Final = 30.0
"""Seconds without etcd after which watches end."""

_MAX_ATTEMPTS: Final = 20

_log = logging.getLogger(__name__)


@asynccontextmanager
async def _bounded() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(context.timeout(CALL_LIMIT)):
            yield
    except TimeoutError:
        raise errors.Unavailable("etcd does not answer in time", retry_delay=1.0, kind=STORAGE) from None


class EtcdStore:
    """Implements RegistryStore as an async context manager. It opens whether or not etcd is available, and recovers
    when etcd comes back."""

    def __init__(
        self,
        members: str,
        *,
        prefix: str = "/archon/v1",
        view: RegistryView | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        self._members = parse_members(members)
        self._prefix = f"{prefix}/".encode()
        self._view = view or RegistryView()
        self._capacity = capacity or Capacity()
        self._records = Records(self._prefix)
        self._view_graph_revision = 0
        """The revision that last wrote the key `graph`, as far as the view knows."""
        self._write_lock = asyncio.Lock()
        self._watch_loop = BackgroundLoop("registry: etcd watch", self._watch_etcd, backoff_min=0.2, backoff_max=1.0)
        self._outage_since = 0.0

    async def __aenter__(self) -> EtcdStore:
        self._etcd = EtcdClient(self._members)
        self._outage_since = time.monotonic()
        self._watch_loop.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        await self._watch_loop.close()
        await self._etcd.close()

    async def register(self, registration: Registration, host: str = "") -> Registered:
        async with _bounded():
            renewed = await self._renew_unchanged(registration)
            return renewed or await self._register(registration.instance_id, registration, host)

    async def keep_alive(
        self, instance_ids: Sequence[str], owners: Sequence[str] = (), *, tenant: str = DEFAULT_TENANT
    ) -> list[int]:
        async with _bounded():
            leases = list(await self._etcd.leases([self._key(instance_key(name)) for name in instance_ids]))
            for number, (instance_id, owner) in enumerate(zip_longest(instance_ids, owners, fillvalue="")):
                current = self._view.state.instances.get(instance_id)
                if current is not None and not (is_of(current, tenant) and may_renew(current, owner)):
                    leases[number] = 0
            renewed = iter(await self._etcd.renew([lease for lease in leases if lease]))
            ttls = [next(renewed) if lease else 0 for lease in leases]
            for instance_id in instance_ids:
                if instance_id not in self._view.to_plan:
                    continue
                try:
                    await self._register(instance_id, None)
                except errors.ArchonError as error:  # the lease is renewed nevertheless; the next heartbeat retries
                    _log.info("could not update the edges of %s: %s", instance_id, error)
            return ttls

    async def leases(self, instance_ids: Sequence[str]) -> list[float]:
        async with _bounded():
            leases = await self._etcd.leases([self._key(instance_key(name)) for name in instance_ids])
            return [float(seconds) for seconds in await self._etcd.seconds_left(leases)]

    async def deregister(self, instance_id: str, owner: str = "", *, tenant: str = DEFAULT_TENANT) -> None:
        async with _bounded():
            kv = await self._etcd.get(self._key(instance_key(instance_id)))
            if kv is None:
                return
            current = self._records.registration(kv)
            if current is not None and not is_of(current, tenant):
                return
            if current is not None and not owns(current, owner):
                raise refusal(current)
            await self._etcd.revoke(kv.lease)

    async def read(self) -> State:
        async with _bounded():
            return (await self._list()).state

    async def pin(self, edges: Sequence[Edge]) -> Graph:
        return await self._change_pins(lambda state: plan_pins(state, edges))

    async def unpin(self, edges: Sequence[Edge]) -> Graph:
        return await self._change_pins(lambda state: plan_unpins(state, edges))

    async def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        async with _bounded():
            await self._view.ready.wait()
        async with aclosing(self._view.watch(from_revision)) as changes:
            async for change in changes:
                yield change

    def end_watches(self) -> None:
        self._view.end_watches(errors.Unavailable("this registry is stopping", retry_delay=0.1))

    def _key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    async def _list(self) -> Listing:
        """Returns all records (linearizable), from the view if that is current."""
        if self._view.ready.is_set():
            # The keys of edges come before `graph`, the keys of instances and pins after it.
            revision, keys, graph_revision = await self._etcd.count_from(self._key(GRAPH), self._prefix)
            state = self._view.state
            keys_in_view = len(state.instances) + len(state.pins) + bool(graph_revision)
            if graph_revision == self._view_graph_revision and keys == keys_in_view:
                return Listing(replace(state, revision=revision), graph_revision)
        return await self._list_etcd()

    async def _list_etcd(self) -> Listing:
        return self._records.listing(await self._etcd.range(self._prefix))

    async def _renew_unchanged(self, registration: Registration) -> Registered | None:
        """Renews the lease of a registration that is stored already: the common case, which writes nothing. Returns
        None if the full transaction is needed."""
        kv = await self._etcd.get(self._key(instance_key(registration.instance_id)))
        current = self._view.unchanged(registration)
        if kv is None or current is None or current.revision != kv.mod_revision:
            return None
        if not (ttl := (await self._etcd.renew([kv.lease]))[0]):
            return None
        return Registered(current, ttl, self._view.refused_edges(current.instance_id))

    async def _register(self, instance_id: str, wanted: Registration | None, host: str = "") -> Registered:
        """Writes a registration; with None, updates the edges of the stored one."""
        granted: tuple[int, int] | None = None
        async with self._write_lock:
            for attempt in range(_MAX_ATTEMPTS):
                await _jitter(attempt)
                listing = await self._list()
                current = listing.state.instances.get(instance_id)
                registration = wanted or current
                if registration is None:
                    raise errors.LeaseExpired(f"{instance_id} is not registered")
                self._capacity.check(listing.state, registration, host)
                update, refused = plan_registration(listing.state, registration, host)
                if current is None:
                    granted = granted or await self._etcd.grant(registration.ttl.seconds)
                    lease, ttl = granted
                else:
                    lease = (await self._etcd.leases([self._key(instance_key(instance_id))]))[0]
                    if lease and current.ttl != registration.ttl:
                        await self._etcd.revoke(lease)
                        continue
                    ttl = (await self._etcd.renew([lease]))[0] if lease else 0
                    if not ttl:
                        continue
                try:
                    revision = await self._write(update, listing, lease)
                except errors.LeaseExpired:
                    granted = None
                    continue
                if revision:
                    stored = listing.state.with_update(update, revision).instances[instance_id]
                    return Registered(stored, ttl, refused)
        raise errors.Unavailable("too many concurrent writes", retry_delay=0.5, kind=STORAGE)

    async def _change_pins(self, plan: Callable[[State], Update]) -> Graph:
        async with _bounded(), self._write_lock:
            for attempt in range(_MAX_ATTEMPTS):
                await _jitter(attempt)
                listing = await self._list()
                update = plan(listing.state)
                if revision := await self._write(update, listing):
                    return build_graph(listing.state.with_update(update, revision))
        raise errors.Unavailable("too many concurrent writes", retry_delay=0.5, kind=STORAGE)

    async def _write(self, update: Update, listing: Listing, lease: int = 0) -> int:
        """Writes an update computed from `listing`. Returns the revision written, or the listing's if there is nothing
        to write, or 0 if another transaction came first."""
        if not update:
            return listing.state.revision
        graph = self._key(GRAPH)
        ops: list[Any] = [rpc.RequestOp(request_put=rpc.PutRequest(key=graph, value=b"{}"))]
        for name, record in update.items():
            key = self._key(name)
            if isinstance(record, Registration | Edge):
                host = update.get(host_key(record.instance_id)) if isinstance(record, Registration) else None
                value = encode(record, host if isinstance(host, str) else "")
                ops.append(rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value, lease=lease)))
            elif record is None:
                end = range_end(key) if name.endswith("/") else b""
                ops.append(rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key, range_end=end)))
        unchanged = rpc.Compare(
            result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=graph, mod_revision=listing.graph_revision
        )
        response = await self._etcd.txn([unchanged], ops)
        return int(response.header.revision) if response.succeeded else 0

    async def _watch_etcd(self) -> None:
        """Keeps the view current: lists, then watches from that revision, until an error ends the watch."""
        try:
            async with _bounded():
                listing = await self._list_etcd()
            self._view.reset(listing.state)
            self._view_graph_revision = listing.graph_revision
            self._watch_loop.report_progress()
            async with aclosing(self._etcd.watch(self._prefix, listing.state.revision + 1)) as batches:
                async for events in batches:
                    for revision, update, writes_graph in self._records.revisions(events):
                        self._view.apply(revision, update)
                        if writes_graph:
                            self._view_graph_revision = revision
        finally:
            self._note_outage()

    def _note_outage(self) -> None:
        if self._view.ready.is_set():
            self._view.ready.clear()
            self._outage_since = time.monotonic()
        elif time.monotonic() - self._outage_since > OUTAGE_LIMIT:
            self._view.end_watches(errors.Unavailable("etcd cannot be reached", retry_delay=1.0, kind=STORAGE))


async def _jitter(attempt: int) -> None:
    if attempt:
        await asyncio.sleep(random.uniform(0, min(0.1, 0.005 * 2**attempt)))
