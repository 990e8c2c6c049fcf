"""The registry over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, cast

from archon import errors
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.channel import Option, connect
from archon.interceptors import translated
from archon.registry import convert
from archon.registry.graph import Edge, Graph, RegistryChange
from archon.registry.handle import CALL_TIMEOUT, CLOSE_TIMEOUT, RegistrationHandle
from archon.registry.keepalive import Beats
from archon.registry.registration import Registration
from archon.registry.retry import passes, pause

REGISTER_TIMEOUT: Final = 10.0
"""Seconds that `register` waits for the registry before it leaves the rest to the background."""

_PAGE: Final = 1_000
_Messages = AsyncGenerator[pb.WatchResponse, None]
_KINDS: Final = {"instances": pb.WATCH_KIND_INSTANCES, "edges": pb.WATCH_KIND_EDGES}


class RegistryClient:
    """A connection to the registry at `host:port`. Lazy; safe to share among tasks of one loop. Close it, or use it
    as an async context manager. Calls raise Archon's errors: Unavailable and DeadlineExceeded where the registry or
    its store can't be reached, InvalidArgument with the fields that are wrong."""

    def __init__(self, target: str, *, options: Sequence[Option] | None = None) -> None:
        self.target = target
        self._channel = connect(target, options)
        self._stub = registry_service_pb2_grpc.RegistryServiceStub(self._channel)
        self._beats = Beats(self._stub)
        self._closed = False

    async def __aenter__(self) -> RegistryClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Deregisters what is registered, within about two seconds, and closes the connection. Idempotent."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(handle.close() for handle in self._beats.handles()))
        await self._beats.close()
        await self._channel.close()

    async def register(self, registration: Registration, *, timeout: float = REGISTER_TIMEOUT) -> RegistrationHandle:
        """Registers, and keeps the registration alive until the handle is closed: renewed every ttl/3, made again
        after any outage.

        Raises what can't pass by itself: InvalidArgument, AlreadyExists (CONFLICT: the instance_id belongs to another
        role or to somebody else), PermissionDenied. While the registry can't be reached it waits at most `timeout`
        seconds and then returns a handle that isn't registered yet and goes on trying (`handle.registered`).
        """
        convert.registration_to_proto(registration)
        handle = RegistrationHandle(registration, self._register, self._deregister, self._beats.wake)
        handle.start()
        self._beats.add(handle)
        try:
            await handle.first_answer(timeout)
        except errors.ArchonError:
            self._beats.remove(handle)
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
        """The living instances of a role, or of a capability, newest version first. `version` may end in `.*`. Empty
        where some live but none fits version and tags. Raises UnknownRole or UnknownCapability where none lives."""
        request = pb.ResolveInstancesRequest(version=version, tags=tags)
        if role:
            request.role = role
        else:
            request.capability = capability
        answer = await self._stub.ResolveInstances(request, timeout=timeout)
        return [convert.registration_from_proto(one) for one in answer.instances]

    async def list_instances(self, role: str = "", *, timeout: float = CALL_TIMEOUT) -> list[Registration]:
        """All living instances, by role and instance_id; `timeout` is for each page of 1,000."""
        found: list[Registration] = []
        token = ""
        while True:
            request = pb.ListInstancesRequest(page_size=_PAGE, page_token=token, role=role)
            answer = await self._stub.ListInstances(request, timeout=timeout)
            found += [convert.registration_from_proto(one) for one in answer.instances]
            token = answer.next_page_token
            if not token:
                return found

    async def get_graph(self, *, timeout: float = CALL_TIMEOUT) -> Graph:
        """The graph of roles as it stands."""
        answer = await self._stub.GetGraph(pb.GetGraphRequest(), timeout=timeout)
        return convert.graph_from_proto(answer.graph)

    async def pin_edges(self, edges: Iterable[Edge | tuple[str, str]], *, timeout: float = CALL_TIMEOUT) -> Graph:
        """Pins edges that stay whoever lives, all of them or none; takes (upstream, downstream) for an edge too.
        Returns the graph after it. Raises GraphCycle, whose metadata["cycle"] names the path."""
        request = pb.PinEdgesRequest(edges=convert.edges_to_proto(edges))
        return convert.graph_from_proto((await self._stub.PinEdges(request, timeout=timeout)).graph)

    async def unpin_edges(self, edges: Iterable[Edge | tuple[str, str]], *, timeout: float = CALL_TIMEOUT) -> Graph:
        """Unpins edges; what isn't pinned is no error. Returns the graph after it."""
        request = pb.UnpinEdgesRequest(edges=convert.edges_to_proto(edges))
        return convert.graph_from_proto((await self._stub.UnpinEdges(request, timeout=timeout)).graph)

    async def watch(self, kinds: Sequence[str] = (), *, from_revision: int = 0) -> AsyncGenerator[RegistryChange, None]:
        """Follows `instances`, `edges`, or both (none named): a snapshot first, or the changes since `from_revision`;
        then every change. It never ends by itself: after any outage it connects again and resumes where it was, with a
        snapshot where that is too long ago. Raises InvalidArgument and what else can't pass by itself. Close the
        iterator (contextlib.aclosing) or leave the loop by cancelling its task."""
        unknown = [kind for kind in kinds if kind not in _KINDS]
        if unknown:
            raise errors.InvalidArgument(f"{unknown[0]!r} is none of {', '.join(_KINDS)}")
        revision, attempt = from_revision, 0
        while True:
            failure: errors.ArchonError | None = None
            request = pb.WatchRequest(kinds=[_KINDS[kind] for kind in kinds], from_revision=revision)
            try:
                async with aclosing(cast(_Messages, translated(self._stub.Watch(request)))) as messages:
                    async for message in messages:
                        revision, attempt = message.revision, 0
                        yield convert.change_from_proto(message)
            except errors.ArchonError as error:
                if self._closed or not passes(error):
                    raise
                failure = error
            await asyncio.sleep(pause(attempt, failure, longest=1.0))
            attempt += 1

    async def _register(self, request: pb.RegisterInstanceRequest) -> pb.RegisterInstanceResponse:
        return await self._stub.RegisterInstance(request, timeout=CALL_TIMEOUT)

    async def _deregister(self, instance_id: str) -> None:
        for handle in self._beats.handles():
            if handle.instance_id == instance_id:
                self._beats.remove(handle)
        request = pb.DeregisterInstanceRequest(instance_id=instance_id)
        await self._stub.DeregisterInstance(request, timeout=CLOSE_TIMEOUT)
