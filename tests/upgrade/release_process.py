"""A process of a release: a service, an agent or the load."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

from tests.upgrade.release import Release

STARTED_WITHIN: Final = 60.0
STOPPED_WITHIN: Final = 60.0
POLL_INTERVAL: Final = 0.02


class ReleaseProcess:
    """Runs `python ARGUMENTS` with the packages of a release, one after the other as it is upgraded. All its releases
    use the same port and write one log, `home/NAME.log`."""

    def __init__(self, name: str, home: Path, port: int, *arguments: str, **environment: str) -> None:
        self.name, self.port, self.environment = name, port, environment
        self.log = home / f"{name}.log"
        self._home, self._arguments = home, arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it serves (host:port)."""
        return f"127.0.0.1:{self.port}"

    async def start(self, release: Release) -> None:
        """Starts it with a release, and waits until it serves. Raises AssertionError if it exits."""
        ready = self._home / f"{uuid.uuid4().hex}.ready"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        own = {
            "PYTHONPATH": release.path,
            "PYTHONSAFEPATH": "1",
            "ARCHON_READY_FILE": str(ready),
            "ARCHON_PORT": str(self.port),
            "ARCHON_HOME": str(self._home),
        }
        with self.log.open("ab") as log:
            log.write(f"-- {release.name}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                [sys.executable, *self._arguments],
                env={**inherited, **own, **self.environment},
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with asyncio.timeout(STARTED_WITHIN):
            while not ready.exists():
                assert self._process.poll() is None, f"{self.name} of {release.name}: {self.log.read_text()[-3000:]}"
                await asyncio.sleep(POLL_INTERVAL)

    async def stop(self) -> None:
        """Sends SIGTERM and waits for the end. Idempotent. Raises AssertionError if it exits with an error."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self._process.wait, STOPPED_WITHIN)
        assert code == 0, f"{self.name} exited with {code}: {self.log.read_text()[-3000:]}"

    async def upgrade(self, release: Release) -> None:
        """Replaces it by the same process of another release."""
        await self.stop()
        await self.start(release)

    def kill(self) -> None:
        """Sends SIGKILL if it runs. Idempotent."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)
