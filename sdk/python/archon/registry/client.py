"""Client of the registry service."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import zip_longest
from typing import Any, Final, cast

import grpc

from archon import errors, mesh_id
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.channel import Option, connect
from archon.interceptors import translated
from archon.pages import LARGEST, pages
from archon.registry import convert
from archon.registry.graph import Graph, Lease, RegistryChange
from archon.registry.keepalive import Keepalive
from archon.registry.registration import Registration
from archon.registry.registration_handle import CALL_TIMEOUT, CLOSE_TIMEOUT, RegistrationHandle
from archon.registry.retry import backoff, is_transient
from archon.security.certificates import CertificateFolder
from archon.security.credentials import Credentials
from archon.security.peer import REGISTRY
from archon.types.edge import Edge
from archon.wire import to_seconds

REGISTER_TIMEOUT: Final = 10.0
"""Seconds that `register` waits for the registry before it continues in the background."""

_Messages = AsyncGenerator[pb.WatchResponse, None]
_KINDS: Final = {"instances": pb.WATCH_KIND_INSTANCES, "edges": pb.WATCH_KIND_EDGES}


class RegistryClient:
    """A connection to the registry at `host:port`, which is made at the first call and may be shared by tasks of one
    event loop. Close it, or use it as an async context manager. Calls raise Unavailable and DeadlineExceeded if the
    registry or its store is unreachable, InvalidArgument with the invalid fields.

    Calls present `credentials`, by default the token of this process or of the mesh on this machine. `on_registered`
    is called with the public keys of the mesh (a JSON Web Key Set, or empty) and the tenant after each registration.
    The client's registrations are its own: other clients can neither change nor end them, unless they have the same
    registration `token`, a secret of 16 to 128 characters; empty: a random one."""

    def __init__(
        self,
        target: str,
        *,
        options: Sequence[Option] | None = None,
        credentials: Credentials | None = None,
        certificate: CertificateFolder | None = None,
        on_registered: Callable[[str, str], None] | None = None,
        token: str = "",
    ) -> None:
        self.target = target
        self._channel = connect(target, options, peer=REGISTRY, credentials=credentials, certificate=certificate)
        self._on_registered = on_registered
        self._stub = registry_service_pb2_grpc.RegistryServiceStub(self._channel)
        self._keepalive = Keepalive(self._stub)
        self._token = token or secrets.token_urlsafe(24)
        self._closed = False
        self._watch_lost: float | None = time.monotonic()

    @property
    def watch_lag(self) -> float:
        """Seconds for which changes may have been missed: 0 while `watch` has an open stream, else since it was lost,
        or since this client was created."""
        lost = self._watch_lost
        return 0.0 if lost is None else time.monotonic() - lost

    async def __aenter__(self) -> RegistryClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Deregisters all registrations, within about two seconds, and closes the connection. Idempotent."""
        await self._close(lambda handle: handle.close())

    async def abandon(self) -> None:
        """Like `close`, but the registrations stay until their leases expire, or until a client with the same token
        renews them. Idempotent."""
        await self._close(lambda handle: handle.abandon())

    async def _close(self, end: Callable[[RegistrationHandle], Awaitable[None]]) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(end(handle) for handle in self._keepalive.handles()))
        await self._keepalive.close()
        await self._channel.close()

    async def register(self, registration: Registration, *, timeout: float = REGISTER_TIMEOUT) -> RegistrationHandle:
        """Registers, and keeps the registration alive until the handle is closed: its lease is renewed every ttl/3, and
        it is registered again after any outage.

        Raises errors that are not transient: InvalidArgument, AlreadyExists (CONFLICT: the instance_id belongs to
        another role or another owner), PermissionDenied. If the registry is unreachable for `timeout` seconds it
        returns a handle that is not registered yet and continues in the background (`handle.registered`).
        """
        convert.registration_to_proto(registration)
        handle = RegistrationHandle(registration, self._register, self._deregister, self._keepalive.wake, self._token)
        handle.start()
        self._keepalive.add(handle)
        try:
            await handle.first_answer(timeout)
        except errors.ArchonError:
            self._keepalive.remove(handle)
            await handle.abandon()
            raise
        except BaseException:
            await handle.close()
            raise
        return handle

    async def resolve(
        self,
        role: str = "",
        *,
        capability: str = "",
        version: str = "",
        tags: Mapping[str, str] | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> list[Registration]:
        """The live instances of a role, or with a capability, newest version first. `version` may end in `.*`. Returns
        an empty list if no live instance matches version and tags. Raises UnknownRole or UnknownCapability if there is
        no live instance at all."""
        request = pb.ResolveInstancesRequest(version=version, tags=tags)
        if role:
            request.role = role
        else:
            request.capability = capability
        answer = await self._stub.ResolveInstances(request, timeout=timeout)
        return [convert.registration_from_proto(instance) for instance in answer.instances]

    async def list_instances(self, role: str = "", *, timeout: float = CALL_TIMEOUT) -> list[Registration]:
        """All live instances, sorted by role and instance_id; `timeout` applies to each page of 1,000."""
        pages = self._pages(role, leases=False, timeout=timeout)
        return [convert.registration_from_proto(instance) async for page in pages for instance in page.instances]

    async def list_leases(self, role: str = "", *, timeout: float = CALL_TIMEOUT) -> list[tuple[Registration, float]]:
        """Like `list_instances`, each instance with the seconds that its lease has left, 0 if it has just expired. An
        instance whose `ttl` is T and that has L seconds left has renewed its lease T - L seconds ago."""
        return [
            (convert.registration_from_proto(instance), to_seconds(lease.ttl) if lease is not None else 0.0)
            async for page in self._pages(role, leases=True, timeout=timeout)
            for instance, lease in zip_longest(page.instances, page.leases)  # an old registry sends no leases
        ]

    def _pages(self, role: str, *, leases: bool, timeout: float) -> AsyncGenerator[pb.ListInstancesResponse, None]:
        request = pb.ListInstancesRequest(page_size=LARGEST, role=role, leases=leases)
        return pages(self._stub.ListInstances, request, timeout=timeout)

    async def get_graph(self, *, timeout: float = CALL_TIMEOUT) -> Graph:
        """The current graph of roles."""
        answer = await self._stub.GetGraph(pb.GetGraphRequest(), timeout=timeout)
        return convert.graph_from_proto(answer.graph)

    async def pin_edges(self, edges: Iterable[Edge | tuple[str, str]], *, timeout: float = CALL_TIMEOUT) -> Graph:
        """Pins edges, all or none: they stay whatever instances are live. An edge may be a pair (upstream, downstream).
        Returns the new graph. Raises GraphCycle, with the path in metadata["cycle"]."""
        request = pb.PinEdgesRequest(edges=convert.edges_to_proto(edges))
        return convert.graph_from_proto((await self._stub.PinEdges(request, timeout=timeout)).graph)

    async def unpin_edges(self, edges: Iterable[Edge | tuple[str, str]], *, timeout: float = CALL_TIMEOUT) -> Graph:
        """Unpins edges; edges that are not pinned are ignored. Returns the new graph."""
        request = pb.UnpinEdgesRequest(edges=convert.edges_to_proto(edges))
        return convert.graph_from_proto((await self._stub.UnpinEdges(request, timeout=timeout)).graph)

    async def watch(
        self, kinds: Sequence[str] = (), *, from_revision: int = 0, all_tenants: bool = False
    ) -> AsyncGenerator[RegistryChange, None]:
        """Watches `instances`, `edges`, or both by default. Yields a snapshot, or the changes since `from_revision`,
        then every change. It does not end by itself: after any outage it reconnects and resumes, with a snapshot if
        the last revision was compacted. With `all_tenants`, which only services of the mesh may ask for, changes of
        all tenants. Raises InvalidArgument and other errors that are not transient. Close the iterator
        (contextlib.aclosing) or cancel its task."""
        unknown = [kind for kind in kinds if kind not in _KINDS]
        if unknown:
            raise errors.InvalidArgument(f"unknown kind {unknown[0]!r}; use {' or '.join(_KINDS)}")
        revision, attempt = from_revision, 0
        while True:
            failure: errors.ArchonError | None = None
            parts: list[pb.WatchResponse] = []
            request = pb.WatchRequest(
                kinds=[_KINDS[kind] for kind in kinds], from_revision=revision, all_tenants=all_tenants
            )
            call: Any = self._stub.Watch(request, metadata=mesh_id.outgoing())
            opening = asyncio.create_task(self._opened(call), name="registry: watch opens")
            try:
                async with aclosing(cast(_Messages, translated(call))) as messages:
                    async for message in messages:
                        parts.append(message)
                        if message.revision:  # the last part of a change that is too large for one message
                            revision, attempt = message.revision, 0
                            yield convert.change_from_proto(parts)
                            parts = []
            except errors.ArchonError as error:
                if self._closed or not is_transient(error):
                    raise
                failure = error
            finally:
                opening.cancel()
                if self._watch_lost is None:
                    self._watch_lost = time.monotonic()
            await asyncio.sleep(backoff(attempt, failure, longest=1.0))
            attempt += 1

    async def _opened(self, call: Any) -> None:
        """Notes when the registry has accepted the watch, which may have no message for a long time."""
        try:
            await call.initial_metadata()
        except grpc.RpcError:
            return
        if not call.done():
            self._watch_lost = None

    async def _register(self, registration: Registration, token: str) -> Lease:
        request = pb.RegisterInstanceRequest(registration=convert.registration_to_proto(registration), token=token)
        answer = await self._stub.RegisterInstance(request, timeout=CALL_TIMEOUT, metadata=mesh_id.outgoing())
        if self._on_registered is not None:
            self._on_registered(answer.keys_json, answer.registration.tenant)
        return Lease(to_seconds(answer.ttl), convert.refused_from_proto(answer.refused_edges))

    async def _deregister(self, instance_id: str, token: str) -> None:
        for handle in self._keepalive.handles():
            if handle.instance_id == instance_id:
                self._keepalive.remove(handle)
        request = pb.DeregisterInstanceRequest(instance_id=instance_id, token=token)
        await self._stub.DeregisterInstance(request, timeout=CLOSE_TIMEOUT)
