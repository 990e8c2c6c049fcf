"""The shared memory and the registry it follows, each as a process of its own."""

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
from archon_services.testing import child_signals as signals

FINAL = PropagationPolicy.FINAL_RESPONSE_ONLY
_STARTED_WITHIN = 15.0


class Service:
    """One service as a child process; on the same port over all its restarts."""

    def __init__(self, name: str, home: Path, *arguments: str) -> None:
        self._name = name
        self._home = home
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.address = ""

    async def start(self) -> str:
        """Waits until it serves."""
        code = await self.start_or_end()
        assert code is None, f"{self._name} ended with {code}"
        return self.address

    async def start_or_end(self) -> int | None:
        """Waits until it serves, None, or has ended: its exit code."""
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
        """A signal."""
        assert self._process is not None, "it was never started"
        signals.send(self._process, number)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and waits until the process is gone; its exit code, which is minus the signal's number where
        that ended it."""
        self.send(number)
        assert self._process is not None
        code = await asyncio.to_thread(self._process.wait, 10)
        if self._log is not None:
            self._log.close()
        return code

    async def close(self) -> None:
        """Whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            await self.end(signal.SIGKILL)


class Mesh:
    """A registry that keeps everything in its memory, and a shared memory in a file or a database."""

    def __init__(self, home: Path, db: str = "") -> None:
        self.home = home
        self.db = db or str(home / "memory.db")
        self.registry = Service("registry", home, "--etcd", "memory")
        self.memory = Service("memory", home)

    async def start(self) -> None:
        """Both."""
        self.memory = self.another_memory(await self.registry.start())
        await self.memory.start()

    def another_memory(self, registry: str) -> Service:
        """Over the same store; not started."""
        return Service("memory", self.home, "--registry", registry, "--db", self.db)

    def client(self, scope: str) -> MemoryGraphClient:
        """To be closed."""
        return MemoryGraphClient(self.memory.address, scope, registry=self.registry.address)

    async def pin(self, *pairs: tuple[str, str], policy: PropagationPolicy = FINAL) -> None:
        """Pins edges, and waits until the memory follows them."""
        async with RegistryClient(self.registry.address) as registry, self.client("any") as memory:
            await registry.pin_edges([Edge(*pair, policy) for pair in pairs])

            async def follows() -> bool:
                known = {(edge["src"], edge["dst"], edge["policy"]) for edge in (await memory.to_dict())["edges"]}
                return {(*pair, policy.value) for pair in pairs} <= known

            await eventually(follows)


async def eventually(look: Callable[[], Awaitable[bool]], within: float = 5.0) -> None:
    """Waits until something holds, at most so many seconds."""
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.02)


class Eventually(Protocol):
    async def __call__(self, look: Callable[[], Awaitable[bool]], within: float = 5.0) -> None: ...


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
    """One for all tests that do it no harm: a -> b -> c and a -> c are pinned; each test has a scope of its own."""
    async with _mesh() as mesh:
        await mesh.pin(("a", "b"), ("b", "c"), ("a", "c"))
        yield mesh


@pytest.fixture(params=["file", "postgres"])
async def fresh_mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """One whose processes a test may kill, over each store."""
    async with _mesh(request.getfixturevalue("postgres_dsn") if request.param == "postgres" else "") as mesh:
        yield mesh


@pytest.fixture
async def client(mesh: Mesh) -> AsyncIterator[MemoryGraphClient]:
    """Of a new scope."""
    async with mesh.client(f"scope-{uuid.uuid4().hex}") as client:
        yield client
