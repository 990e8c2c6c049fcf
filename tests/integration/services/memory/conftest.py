"""Fixtures: the shared memory and the registry that it watches, each as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Protocol

import pytest

from archon.memory import MemoryGraphClient
from archon.registry import Edge, PropagationPolicy, RegistryClient
from archon_services.local_mesh import child_signals as signals

FINAL = PropagationPolicy.FINAL_RESPONSE_ONLY
_STARTED_WITHIN = 15.0


class Service:
    """A service as a child process, which keeps its port over restarts."""

    def __init__(self, name: str, home: Path, *arguments: str) -> None:
        self._name = name
        self._home = home
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.address = ""

    async def start(self) -> str:
        """Starts the process and waits until it serves; returns its address."""
        code = await self.start_or_end()
        assert code is None, f"{self._name} ended with {code}"
        return self.address

    async def start_or_end(self) -> int | None:
        """Starts the process and waits until it serves (returns None) or ends (returns its exit code)."""
        ready = self._home / f"{uuid.uuid4().hex}.ready"
        port = self.address.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", f"archon_services.{self._name}", "--ready-file", str(ready), "--port", port]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        self._log = (self._home / f"{self._name}.log").open("ab")
        self._process = await asyncio.to_thread(
            subprocess.Popen, [*command, *self._arguments], env=environment, stderr=self._log
        )
        async with asyncio.timeout(_STARTED_WITHIN):
            while not ready.exists():
                if (code := self._process.poll()) is not None:
                    return code
                await asyncio.sleep(0.01)
        self.address = ready.read_text()
        return None

    def send(self, number: int) -> None:
        """Sends a signal."""
        assert self._process is not None, "not started"
        signals.send(self._process, number)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and waits until the process ends. Returns its exit code, which is minus the signal's number if
        the signal ended it."""
        self.send(number)
        assert self._process is not None
        code = await asyncio.to_thread(self._process.wait, 10)
        if self._log is not None:
            self._log.close()
        return code

    async def close(self) -> None:
        """Kills the process if it is running."""
        if self._process is not None and self._process.poll() is None:
            await self.end(signal.SIGKILL)


class Mesh:
    """A registry with its store in memory, and a shared memory with its store in a file or a database."""

    def __init__(self, home: Path, db: str = "") -> None:
        self.home = home
        self.db = db or str(home / "memory.db")
        self.registry = Service("registry", home, "--etcd", "memory")
        self.memory = Service("memory", home)

    async def start(self) -> None:
        """Starts both services."""
        self.memory = self.another_memory(await self.registry.start())
        await self.memory.start()

    def another_memory(self, registry: str) -> Service:
        """Makes a memory service over the same store, not started."""
        return Service("memory", self.home, "--registry", registry, "--db", self.db)

    def client(self, scope: str) -> MemoryGraphClient:
        """Makes a client, which the caller closes."""
        return MemoryGraphClient(self.memory.address, scope, registry=self.registry.address)

    async def pin(self, *pairs: tuple[str, str], policy: PropagationPolicy = FINAL) -> None:
        """Pins edges, and waits until the memory service knows them."""
        async with RegistryClient(self.registry.address) as registry, self.client("any") as memory:
            await registry.pin_edges([Edge(*pair, policy) for pair in pairs])

            async def edges_known() -> bool:
                edges = {(edge["src"], edge["dst"], edge["policy"]) for edge in (await memory.to_dict())["edges"]}
                return {(*pair, policy.value) for pair in pairs} <= edges

            await eventually(edges_known)


async def eventually(condition: Callable[[], Awaitable[bool]], within: float = 5.0) -> None:
    """Waits until a condition holds, at most `within` seconds."""
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


class Eventually(Protocol):
    async def __call__(self, condition: Callable[[], Awaitable[bool]], within: float = 5.0) -> None: ...


@pytest.fixture(name="eventually")
def _eventually() -> Eventually:
    return eventually


@asynccontextmanager
async def _mesh(db: str = "") -> AsyncIterator[Mesh]:
    with tempfile.TemporaryDirectory(prefix="archon-memory-") as home:
        mesh = Mesh(Path(home), db)
        try:
            await mesh.start()
            yield mesh
        finally:
            await mesh.memory.close()
            await mesh.registry.close()


@pytest.fixture(scope="session")
async def mesh() -> AsyncIterator[Mesh]:
    """A mesh for all tests that leave it running: a -> b -> c and a -> c are pinned; each test has a scope of its own."""
    async with _mesh() as mesh:
        await mesh.pin(("a", "b"), ("b", "c"), ("a", "c"))
        yield mesh


@pytest.fixture(params=["file", "postgres"])
async def fresh_mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """A mesh whose processes a test may kill, over each store."""
    async with _mesh(request.getfixturevalue("postgres_dsn") if request.param == "postgres" else "") as mesh:
        yield mesh


@pytest.fixture
async def client(mesh: Mesh) -> AsyncIterator[MemoryGraphClient]:
    """A client of a new scope."""
    async with mesh.client(f"scope-{uuid.uuid4().hex}") as client:
        yield client
