"""A mesh in the event loop of a test: registry, memory service and orchestrator, over real gRPC on free ports of
127.0.0.1, but without etcd and without a process of their own.

    async with InProcessMesh(tmp_path) as mesh:
        async with AgentServer("greeter", handler=greet, settings=mesh.agent_settings()):
            handle = await mesh.client.submit("hello", wait=10)

The registry keeps its state in memory; the journal and the memory graph are SQLite files in the mesh's folder, so that
a service continues after `stop`, `kill` and `start`. A mesh starts in hundredths of a second, and `advance` lets a
minute pass in a second or two. Use `archon_services.testing.mesh.LocalMesh` if the subject of the test is a process:
SIGKILL, SIGSTOP, its log, its memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from archon.agent import AgentSettings
from archon.client import Client
from archon.errors import FailedPrecondition
from archon.registry import RegistryClient
from archon_mesh.testing.injected_fault import InjectedFault, fault_of
from archon_services.local_mesh.probe import Probe
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from archon_services.testing.local_service import LocalService
from archon_services.testing.mesh_faults import Fault, Target, apply, check
from archon_services.testing.mesh_links import MeshLinks
from archon_services.testing.movable_clock import MovableClock

_log = logging.getLogger(__name__)

T = TypeVar("T")

ROUND_TRIPS: Final = 3
"""Calls that each service answers between two steps of the clock."""


class InProcessMesh:
    """A mesh in this event loop, with its files in `home`. `settings` are the orchestrator's, such as `lease=1.0`.

    `etcd` is the address of an etcd, with `prefix`; by default the registry keeps its state in memory. With `links`
    connections pass through TCP links (`archon_services.testing.link`), which most faults need: of the client to the
    orchestrator, of services to the registry and the memory service, and of agents with the settings of
    `agent_settings`, from orchestrators and to the registry. `client` is a client of the mesh, `directory` one of its
    registry, which no fault but `registry_killed` hits.
    """

    def __init__(
        self, home: Path, *, etcd: str = "memory", prefix: str = "/archon/v1", links: bool = False, **settings: Any
    ) -> None:
        self.home = home
        self.registry = LocalService(_registry, etcd=etcd, prefix=prefix)
        self.memory = LocalService(_memory, db=str(home / "memory.db"), sync="normal")
        self.orchestrator = LocalService(
            open_orchestrator,
            **{
                "journal": str(home / "journal.db"),
                "journal_sync": "normal",
                "hook_key": str(home / "hooks.key"),
                **settings,
            },
        )
        self.client: Client
        self.directory: RegistryClient
        self.links: MeshLinks | None = None
        """The links of the mesh from its start on, if it has some."""

        self._has_links = links

        self._stack = AsyncExitStack()
        self._faults: dict[tuple[Fault, str], InjectedFault] = {}
        """The active faults, by their agents."""

        self._stopping = False

    async def start(self) -> None:
        """Starts the services, each with the addresses of those that it needs."""
        self._stopping = False
        links = self.links = MeshLinks() if self._has_links else None
        async with AsyncExitStack() as stack:
            if links is not None:
                stack.push_async_callback(links.close)
            own = await self.registry.start()
            stack.push_async_callback(self.registry.stop)
            registry = own if links is None else await links.before(self.registry, links.registry)
            self.memory.settings["registry"] = registry
            memory = await self.memory.start()
            stack.push_async_callback(self.memory.stop)
            if links is not None:
                memory = await links.before(self.memory, links.memory)
            self.orchestrator.settings |= {"registry": registry, "memory": memory}
            orchestrator = await self.orchestrator.start()
            stack.push_async_callback(self.orchestrator.stop)
            if links is not None:
                orchestrator = await links.before(self.orchestrator, links.orchestrator)
            self.client = Client(orchestrator)
            stack.push_async_callback(self.client.close)
            self.directory = RegistryClient(own)
            stack.push_async_callback(self.directory.close)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stops all services, even if one of them fails to stop, and ends faults that were never healed. Idempotent."""
        self._stopping = True
        if self._faults:
            _log.warning("faults that were never healed: %s", ", ".join(fault.name for fault in self._faults.values()))
        for fault in list(self._faults.values()):
            await fault.heal()
        await self._stack.aclose()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def fault(self, fault: Fault | str, agent: Target | None = None, *, seconds: float = 1.0) -> InjectedFault:
        """Returns a fault of the mesh, which is active from its start until it is healed:

            async with mesh.fault("partition", "worker"):
                ...

        `agent` is the agent that it hits: its server, or a role, which means all its instances. `seconds` is the delay
        of `slow_link`. `Fault` has the names, and docs/testing-agents.md their effects.

        Raises InvalidArgument if there is no fault of this name, or an agent is missing or superfluous, and
        FailedPrecondition if the fault needs links, and the mesh has none.
        """
        kind = fault_of(Fault, fault)
        check(kind, agent, seconds, has_links=self._has_links)
        injected = InjectedFault(kind, lambda: self._apply(injected, kind, agent, seconds))
        return injected

    @asynccontextmanager
    async def _apply(
        self, injected: InjectedFault, fault: Fault, agent: Target | None, seconds: float
    ) -> AsyncIterator[None]:
        if not hasattr(self, "directory"):
            raise FailedPrecondition("the mesh was not started: a fault is injected in its block")
        key = (fault, agent if isinstance(agent, str) else agent.role if agent is not None else "")
        if key in self._faults:
            raise FailedPrecondition(f"the fault {fault} has begun already{' for ' if key[1] else ''}{key[1]}")
        self._faults[key] = injected
        try:
            async with apply(fault, self, agent, seconds):
                yield
        finally:
            del self._faults[key]

    async def advance(self, seconds: float) -> None:
        """Moves the clock of this process on by `seconds`: limits of time pass, leases and heartbeats go on.

        After each step every service answers some calls, so that the frames that came due have been exchanged.
        """
        services = [service for service in (self.registry, self.memory, self.orchestrator) if service.running]
        async with AsyncExitStack() as stack:
            probes = [await stack.enter_async_context(Probe("service", service.address)) for service in services]

            async def exchange() -> None:
                for _ in range(ROUND_TRIPS if self.links is None else 2 * ROUND_TRIPS):
                    for probe in probes:
                        await probe.serves()

            await MovableClock().advance(seconds, exchange)

    async def advance_until(self, awaited: Awaitable[T], step: float = 0.5) -> T:
        """Moves the clock on, `step` seconds at a time, until the awaitable is done. Returns its result."""
        future = asyncio.ensure_future(awaited)
        try:
            while not future.done():
                await self.advance(step)
        finally:
            future.cancel()
        return await future

    def agent_settings(self, **settings: Any) -> AgentSettings:
        """Returns settings of an agent that registers with this mesh; of one agent, if the mesh has links. Raises
        FailedPrecondition if it has links, and was not started."""
        settings.setdefault("memory", self.memory.address)
        if self._has_links:
            if self.links is None:
                raise FailedPrecondition("the mesh was not started: an agent with links needs its registry")
            return self.links.agent_settings(self.registry, settings)
        return AgentSettings(registry=self.registry.address, **settings)

    async def __aenter__(self) -> InProcessMesh:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _registry(**settings: Any) -> AbstractAsyncContextManager[str]:
    return registry_app(RegistrySettings(**settings))


def _memory(**settings: Any) -> AbstractAsyncContextManager[str]:
    return memory_app(MemorySettings(**settings))


def open_orchestrator(**settings: Any) -> AbstractAsyncContextManager[str]:
    """Opens an orchestrator with these settings, for a further LocalService of a mesh."""
    return orchestrator_app(OrchestratorSettings(**settings))
