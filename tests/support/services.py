"""Services as child processes: started, killed, frozen, started again on the same port."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from archon_services.testing import signals

STARTED_WITHIN = 20.0
STOPPED_WITHIN = 15.0


class ServiceProcess:
    """`python -m MODULE ARGUMENTS` with an environment of ours alone; it says where it serves by its ready file."""

    def __init__(self, module: str, home: Path, *arguments: str, **environment: str) -> None:
        self.module = module
        self.home = home
        self.address = ""
        self._arguments = arguments
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it wrote on standard error."""
        return self.home / f"{self.module.rpartition('.')[2]}.log"

    @property
    def pid(self) -> int:
        """Raises AssertionError where it isn't running."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> str:
        """Waits until it serves; the address. The port is the same over all starts."""
        ready = self.home / f"{uuid.uuid4().hex}.ready"
        port = self.address.rpartition(":")[2] or "0"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        told = {"ARCHON_READY_FILE": str(ready), "ARCHON_PORT": port, "ARCHON_HOME": str(self.home)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self._arguments],
                env={**inherited, **told, **self._environment},
                stderr=log,
                cwd=Path(__file__).parents[2],
            )
        async with asyncio.timeout(STARTED_WITHIN):
            while not ready.exists():
                assert self._process.poll() is None, f"{self.module} ended: {self.log.read_text()[-2000:]}"
                await asyncio.sleep(0.01)
        self.address = ready.read_text()
        return self.address

    def send(self, number: int) -> None:
        """Sends a signal."""
        assert self._process is not None
        signals.send(self._process, number)

    @property
    def running(self) -> bool:
        """Whether it lives, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def freeze(self) -> None:
        """SIGSTOP, where it lives: its ports stay open, nothing answers."""
        if self.running:
            self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT, where it lives: one that is frozen takes no SIGTERM."""
        if self.running:
            self.send(signal.SIGCONT)

    async def kill(self) -> None:
        """kill -9, and its body is gone."""
        self.send(signal.SIGKILL)
        await self._wait()

    async def stop(self) -> int:
        """SIGTERM; the exit code. Idempotent. One that doesn't end is killed, and that is an error."""
        if not self.running:
            return 0
        self.send(signal.SIGTERM)
        try:
            return await self._wait()
        except subprocess.TimeoutExpired:
            await self.kill()
            raise

    async def _wait(self) -> int:
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, STOPPED_WITHIN)


async def eventually(look: Callable[[], Awaitable[bool]], within: float = 5.0) -> None:
    """Waits until something holds, at most so many seconds."""
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110 - what is looked at is another process
            await asyncio.sleep(0.02)
