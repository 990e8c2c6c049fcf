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
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from archon.agent import AgentSettings
from archon.client import Client
from archon.errors import DeadlineExceeded
from archon.registry import RegistryClient
from archon_services.local_mesh.probe import Probe
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from archon_services.testing.movable_clock import MovableClock

T = TypeVar("T")

STARTED_WITHIN: Final = 30.0
"""Seconds in which a service starts."""

STOPPED_WITHIN: Final = 30.0
"""Seconds in which a service stops."""

ROUND_TRIPS: Final = 3
"""Calls that each service answers between two steps of the clock."""


class LocalService:
    """A service in this event loop. It has the same port after each start.

    `open_app` returns the context manager that serves on a port. `settings` are the values of its settings, which each
    start reads.
    """

    def __init__(self, open_app: Callable[..., AbstractAsyncContextManager[str]], **settings: Any) -> None:
        self.settings = settings
        self.address = ""
        self._open_app = open_app
        self._serving: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether the service is running."""
        return self._serving is not None and not self._serving.done()

    async def start(self) -> str:
        """Starts the service and returns its address. Raises the error with which it fails to start, DeadlineExceeded
        after STARTED_WITHIN seconds."""
        assert not self.running, "the service is running"
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(ready, self._ending), name="service in process")
        started: list[asyncio.Future[Any]] = [self._serving, ready]
        await asyncio.wait(started, timeout=STARTED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            if not self._serving.done():
                await self.kill()
                raise DeadlineExceeded(f"the service does not start within {STARTED_WITHIN:g} s")
            await self._serving
        self.address = await ready
        return self.address

    async def stop(self) -> int:
        """Ends the service as SIGTERM does. Returns 0, as the exit code of a process. Idempotent."""
        self._ending.set()
        await self._ended()
        return 0

    async def kill(self) -> None:
        """Ends the service as a crash does: it hands nothing over. Idempotent."""
        if self._serving is not None:
            self._serving.cancel()
            await self._ended()

    async def _serve(self, ready: asyncio.Future[str], ending: asyncio.Event) -> None:
        port = int(self.address.rpartition(":")[2] or 0)
        async with self._open_app(**{"port": port, **self.settings}) as address:
            ready.set_result(address)
            await ending.wait()

    async def _ended(self) -> None:
        if self._serving is None:
            return
        async with asyncio.timeout(STOPPED_WITHIN):
            await asyncio.wait([self._serving])
        serving, self._serving = self._serving, None
        if not serving.cancelled():
            serving.result()


class InProcessMesh:
    """A mesh in this event loop, with its files in `home`. `settings` are the orchestrator's, such as `lease=1.0`.

    `etcd` is the address of an etcd, with `prefix`; by default the registry keeps its state in memory.
    """

    def __init__(self, home: Path, *, etcd: str = "memory", prefix: str = "/archon/v1", **settings: Any) -> None:
        self.home = home
        self.registry = LocalService(_registry, etcd=etcd, prefix=prefix)
        self.memory = LocalService(_memory, db=str(home / "memory.db"), sync="normal")
        self.orchestrator = LocalService(
            open_orchestrator, **{"journal": str(home / "journal.db"), "journal_sync": "normal", **settings}
        )
        self.client: Client
        self.directory: RegistryClient
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Starts the services, each with the addresses of those that it needs."""
        async with AsyncExitStack() as stack:
            registry = await self.registry.start()
            stack.push_async_callback(self.registry.stop)
            self.memory.settings["registry"] = registry
            memory = await self.memory.start()
            stack.push_async_callback(self.memory.stop)
            self.orchestrator.settings |= {"registry": registry, "memory": memory}
            self.client = Client(await self.orchestrator.start())
            stack.push_async_callback(self.orchestrator.stop)
            stack.push_async_callback(self.client.close)
            self.directory = RegistryClient(registry)
            stack.push_async_callback(self.directory.close)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stops all services, even if one of them fails to stop. Idempotent."""
        await self._stack.aclose()

    async def advance(self, seconds: float) -> None:
        """Moves the clock of this process on by `seconds`: limits of time pass, leases and heartbeats go on.

        After each step every service answers some calls, so that the frames that came due have been exchanged.
        """
        services = [service for service in (self.registry, self.memory, self.orchestrator) if service.running]
        async with AsyncExitStack() as stack:
            probes = [await stack.enter_async_context(Probe("service", service.address)) for service in services]

            async def exchange() -> None:
                for _ in range(ROUND_TRIPS):
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
        """Returns settings of an agent that registers with this mesh."""
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
