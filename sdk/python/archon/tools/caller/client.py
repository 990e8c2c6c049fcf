"""Client of shared tools: finds them, leases them, and executes them where they live."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Final

from archon.clock import monotonic
from archon.errors import ArchonError
from archon.registry import Registration, RegistryClient
from archon.registry.instance_channel import credentials_of_mesh
from archon.tools.caller.find import FIND_SECONDS, FoundTool, shared_by
from archon.tools.caller.leased_tool import LeasedTool
from archon.tools.caller.peer import ToolPeer
from archon.tools.owner.leases import LEASE_SECONDS
from archon.types.task_ref import TaskRef

MAX_PEERS: Final = 64
"""Instances that a client stays connected with."""

FRESH_SECONDS: Final = 5.0
"""Seconds for which a list of the registry answers further questions."""


class ToolClient:
    """Finds, leases and executes the tools that instances of the mesh share, within one event loop.

    `registry` is host:port, or a RegistryClient, which the caller closes. `instance_id` names this process in the logs
    of owners. Close it, or use it as an async context manager."""

    def __init__(
        self,
        registry: RegistryClient | str,
        *,
        instance_id: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.instance_id = instance_id
        self._own_registry = isinstance(registry, str)
        self._registry = RegistryClient(registry) if isinstance(registry, str) else registry
        self._credentials = credentials_of_mesh(self._registry.target)
        self._clock = clock
        self._peers: OrderedDict[str, ToolPeer] = OrderedDict()
        self._listed: dict[str, tuple[float, list[Registration]]] = {}
        self._listing = asyncio.Lock()
        self._failure: tuple[float, ArchonError] | None = None
        """When the registry failed to answer, and how, since its last answer."""

    async def __aenter__(self) -> ToolClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections. Leases that were not released expire."""
        peers, self._peers = list(self._peers.values()), OrderedDict()
        await asyncio.gather(*(peer.close() for peer in peers))
        if self._own_registry:
            await self._registry.close()

    async def find(
        self,
        *,
        name: str = "",
        role: str = "",
        capability: str = "",
        words: str = "",
        fresh: bool = False,
        timeout: float = FIND_SECONDS,
    ) -> list[FoundTool]:
        """Returns shared tools as `find_tools` does, from a list that is at most FRESH_SECONDS old, or with `fresh`
        from a new one. Raises Unavailable and DeadlineExceeded if the registry is not reachable."""
        instances = await self._instances(role, fresh, timeout)
        return shared_by(instances, name=name, role=role, capability=capability, words=words)

    def lease(
        self,
        name: str,
        *,
        role: str = "",
        task: TaskRef | None = None,
        duration: float = LEASE_SECONDS,
    ) -> LeasedTool:
        """Returns a tool to be leased: `async with client.lease("calculator") as tool`. `role` is its owner, by default
        the one with the best tool of this name. The lease is for `task`, takes at most `duration` seconds at a time, is
        renewed as needed, and is released at the end of the block."""
        return LeasedTool(self, name, role=role, task=task, duration=duration, clock=self._clock)

    # For leased tools

    def peer(self, owner: FoundTool) -> ToolPeer:
        """Returns the connection to the instance that shares a tool."""
        key = owner.address or f"{owner.via_orchestrator}/{owner.instance_id}"
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = ToolPeer(owner.instance, self._credentials)
        self._peers.move_to_end(key)
        return peer

    async def trim(self) -> None:
        """Closes the connections that were used least recently, above MAX_PEERS."""
        while len(self._peers) > MAX_PEERS:
            _, oldest = self._peers.popitem(last=False)
            await oldest.close()

    async def _instances(self, role: str, fresh: bool, timeout: float) -> list[Registration]:
        began = self._clock()
        async with self._listing:
            for known in (role, ""):
                listed = self._listed.get(known)
                if listed is None:
                    continue
                # A list that was made while this call waited is new enough.
                if listed[0] >= began or (not fresh and listed[0] + FRESH_SECONDS > self._clock()):
                    return listed[1]
            # Several tools are looked for one after the other: an unreachable registry is waited for once.
            if not fresh and self._failure is not None and self._failure[0] + FRESH_SECONDS > self._clock():
                raise self._failure[1]
            try:
                instances = await self._registry.list_instances(role, timeout=timeout)
            except ArchonError as error:
                self._failure = self._clock(), error
                raise
            self._failure = None
            if len(self._listed) >= MAX_PEERS:
                self._listed.clear()
            self._listed[role] = self._clock(), instances
            return instances
