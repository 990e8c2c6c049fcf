"""Store in the memory of one process, for tests and trials. Leases expire by the monotonic clock."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import zip_longest

from archon import errors
from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon.background import BackgroundLoop
from archon.principal import DEFAULT_TENANT
from archon_services.registry.domain.capacity import Capacity
from archon_services.registry.domain.edges import plan_pins, plan_registration, plan_unpins
from archon_services.registry.domain.queries import is_of
from archon_services.registry.domain.registration_tokens import may_renew, owns, refusal
from archon_services.registry.domain.state import Change, State, Update, instance_key
from archon_services.registry.store.port import Registered
from archon_services.registry.store.view import RegistryView


class MemoryStore:
    """Implements RegistryStore as an async context manager: leases expire while it is open."""

    def __init__(self, view: RegistryView | None = None, *, capacity: Capacity | None = None) -> None:
        self._view = view or RegistryView()
        self._capacity = capacity or Capacity()
        self._expires_at: dict[str, float] = {}
        self._next_expiry = math.inf
        """Lower bound of all expiry times. A renewal does not raise it, so that it need not visit the other leases."""
        self._expires_earlier = asyncio.Event()
        self._expiry_loop = BackgroundLoop("registry: lease expiry", self._expire_leases)

    async def __aenter__(self) -> MemoryStore:
        self._view.reset(State(revision=1))
        self._expiry_loop.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        await self._expiry_loop.close()

    async def register(self, registration: Registration, host: str = "") -> Registered:
        self._remove_expired()
        if current := self._view.unchanged(registration):
            self._renew(current)
            return Registered(current, current.ttl.seconds, self._view.refused_edges(current.instance_id))
        self._capacity.check(self._view.state, registration, host)
        update, refused = plan_registration(self._view.state, registration, host)
        self._write(update)
        self._renew(registration)
        current = self._view.state.instances[registration.instance_id]
        return Registered(current, registration.ttl.seconds, refused)

    async def keep_alive(
        self, instance_ids: Sequence[str], owners: Sequence[str] = (), *, tenant: str = DEFAULT_TENANT
    ) -> list[int]:
        self._remove_expired()
        ttls = []
        for instance_id, owner in zip_longest(instance_ids, owners, fillvalue=""):
            registration = self._view.state.instances.get(instance_id)
            if registration is not None and not (is_of(registration, tenant) and may_renew(registration, owner)):
                registration = None
            if registration is not None:
                if instance_id in self._view.to_plan:
                    self._write(plan_registration(self._view.state, registration)[0])
                self._renew(registration)
            ttls.append(registration.ttl.seconds if registration is not None else 0)
        return ttls

    async def leases(self, instance_ids: Sequence[str]) -> list[float]:
        now = time.monotonic()
        return [max(0.0, self._expires_at.get(instance_id, now) - now) for instance_id in instance_ids]

    async def deregister(self, instance_id: str, owner: str = "", *, tenant: str = DEFAULT_TENANT) -> None:
        registration = self._view.state.instances.get(instance_id)
        if registration is not None and not is_of(registration, tenant):
            return
        if registration is not None and not owns(registration, owner):
            raise refusal(registration)
        self._remove([instance_id])

    async def read(self) -> State:
        self._remove_expired()
        return self._view.state

    async def pin(self, edges: Sequence[Edge]) -> Graph:
        self._remove_expired()
        self._write(plan_pins(self._view.state, edges))
        return self._view.graph

    async def unpin(self, edges: Sequence[Edge]) -> Graph:
        self._write(plan_unpins(self._view.state, edges))
        return self._view.graph

    def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        return self._view.watch(from_revision)

    def end_watches(self) -> None:
        self._view.end_watches(errors.Unavailable("this registry is stopping", retry_delay=0.1))

    def _write(self, update: Update) -> None:
        if update:
            self._view.apply(self._view.state.revision + 1, update)

    def _renew(self, registration: Registration) -> None:
        expires_at = time.monotonic() + registration.ttl.seconds
        self._expires_at[registration.instance_id] = expires_at
        if expires_at < self._next_expiry:
            self._next_expiry = expires_at
            self._expires_earlier.set()

    def _remove(self, instance_ids: Iterable[str]) -> None:
        removed = set(instance_ids)
        update: dict[str, None] = {}
        for instance_id in removed:
            self._expires_at.pop(instance_id, None)
            if instance_id in self._view.state.instances:
                update[instance_key(instance_id)] = None
        if update:
            edges = self._view.state.edges.items()
            update |= {key: None for key, edge in edges if not removed.isdisjoint(edge.declared_by)}
        self._write(update)

    def _remove_expired(self) -> None:
        now = time.monotonic()
        if now < self._next_expiry:
            return
        self._remove([instance_id for instance_id, expires_at in self._expires_at.items() if expires_at <= now])
        self._next_expiry = min(self._expires_at.values(), default=math.inf)

    async def _expire_leases(self) -> None:
        while True:
            self._remove_expired()
            self._expires_earlier.clear()
            seconds = min(3600.0, max(0.01, self._next_expiry - time.monotonic()))
            try:
                await asyncio.wait_for(self._expires_earlier.wait(), seconds)
            except TimeoutError:
                pass
