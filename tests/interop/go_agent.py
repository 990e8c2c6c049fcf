"""The agent in Go as a process, and the fixtures that start it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest

from archon.registry import RegistryClient
from archon_services.testing.mesh import LocalMesh
from tests.fixtures.waiting import eventually
from tests.interop import builds

STARTED_WITHIN = 10.0


class GoAgent:
    """A process of the Go agent. It logs `begin`, `end` and `adopted` with task and attempt."""

    def __init__(self, program: Path, home: Path, registry: str = "", **environment: str) -> None:
        self._ready, self._log = home / "ready", home / "log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        own = {"ARCHON_REGISTRY": registry, "ARCHON_PORT": "0", "ARCHON_READY_FILE": str(self._ready)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([program], env={**inherited, **own, **environment}, stderr=log)

    @property
    def address(self) -> str:
        """The address that it serves on as host:port, empty before it serves."""
        return self._ready.read_text() if self._ready.exists() else ""

    @property
    def log(self) -> str:
        """Its log so far."""
        return self._log.read_text(errors="replace")

    def logged(self, verb: str) -> list[str]:
        """Returns the rest of each log line that begins with this word, in order."""
        lines = (line.split(" ", 2)[2] for line in self.log.splitlines() if line.count(" ") >= 2)
        return [line.removeprefix(f"{verb} ") for line in lines if line.startswith(f"{verb} ")]

    async def until_logged(self, verb: str, count: int = 1, within: float = 5.0) -> list[str]:
        """Waits until it has logged this word `count` times; returns the rest of each line."""

        async def holds() -> bool:
            assert self._process.poll() is None or verb in self.log, self.log[-2000:]
            return len(self.logged(verb)) >= count

        await eventually(holds, within)
        return self.logged(verb)

    async def serving(self) -> GoAgent:
        """Waits until it serves."""

        async def holds() -> bool:
            assert self._process.poll() is None, self.log
            return bool(self.address)

        await eventually(holds, STARTED_WITHIN)
        return self

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    async def exit_code(self, within: float = 10.0) -> int:
        """Waits until it exits; returns the exit code."""
        return await asyncio.to_thread(self._process.wait, within)

    async def end(self) -> None:
        """Kills it if it runs. Idempotent."""
        if self._process.poll() is None:
            self._process.kill()
        await self.exit_code()


class StartGo(Protocol):
    """Starts a Go agent that ends with the test."""

    async def __call__(self, registry: str = "", **environment: str) -> GoAgent: ...


@pytest.fixture(scope="session")
def go_program() -> Path:
    """The program of the agent in Go."""
    return builds.GO.require()


@pytest.fixture
async def start_go(go_program: Path, tmp_path: Path) -> AsyncIterator[StartGo]:
    """Starts agents in Go that end with the test."""
    async with AsyncExitStack() as stack:
        count = 0

        async def start(registry: str = "", **environment: str) -> GoAgent:
            nonlocal count
            count += 1
            home = tmp_path / f"go-{count}"
            home.mkdir()
            agent = GoAgent(go_program, home, registry, **environment)
            stack.push_async_callback(agent.end)
            return await agent.serving()

        yield start


async def registered(mesh: LocalMesh, address: str) -> None:
    """Waits until the registry lists an address."""
    async with RegistryClient(mesh.registry, credentials=mesh.credentials) as registry:

        async def holds() -> bool:
            return any(instance.address == address for instance in await registry.list_instances())

        await eventually(holds, STARTED_WITHIN)
