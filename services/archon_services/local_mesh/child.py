"""One supervised process: start, health checks, restarts with backoff, stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from archon.background import BackgroundLoop
from archon.memory_room import oom_kills
from archon.private_files import private_folder
from archon.security import certificates
from archon_services.local_mesh.forks import ForkedProcess, ForkServer
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.logs import last_lines, limit_size
from archon_services.local_mesh.plan import ProcessSpec
from archon_services.local_mesh.probe import Probe
from archon_services.local_mesh.state import Condition, ProcessState, start_ticks

_log = logging.getLogger(__name__)

BACKOFF: Final = 0.5
MAX_BACKOFF: Final = 10.0
GRACE: Final = 5.0
"""Seconds between SIGTERM and SIGKILL."""

STABLE: Final = 10.0
"""Seconds of health after which the backoff starts again at BACKOFF."""

MAX_START_FAILURES: Final = 3
"""Consecutive exits before the first healthy answer that mark a process as failed."""

USAGE_EXIT_CODE: Final = 2
"""Exit code of a process with invalid arguments or settings: a restart cannot help."""

EXTERNAL: Final = ("etcd", "jaeger")
"""Kinds of processes that are no programs of Archon: they write no ready file."""

_POLL: Final = 0.03
_CHECK_INTERVAL: Final = 2.0
_PARENT_DEATH: Final = str(Path(__file__).with_name("parent_death.py"))


class Child:
    """A process that is restarted whenever it exits. Calls `changed` after every change of `state`."""

    def __init__(self, spec: ProcessSpec, home: Home, changed: Callable[[], None], *, restarts: bool = True) -> None:
        self.spec = spec
        self.state = ProcessState(
            spec.name, spec.kind, "starting", address=spec.address, model=spec.model, metrics=spec.metrics
        )
        self._home = home
        has_tls = certificates.VARIABLE in spec.environment
        self._certificate = certificates.CertificateFolder(home.folder.user_certificate) if has_tls else None
        self._changed = changed
        self._restarts = restarts
        self._wanted = asyncio.Event()
        self._paused = asyncio.Event()
        self._pausing = asyncio.Event()  # ends the delay before a restart
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None
        self._loop = BackgroundLoop(f"keep {spec.name} running", self._keep_running)
        self._log_offset = 0
        self._oom_kills = 0

    async def start(self, forks: ForkServer | None = None) -> None:
        """Starts the process, if possible by `forks`, and keeps it running until `pause` or `stop`."""
        self._wanted.set()
        if not self._loop.running:
            await self._spawn(forks)
            self._loop.start()

    async def pause(self, grace: float) -> None:
        """Stops the process until `start`: SIGTERM, then SIGKILL after `grace` seconds."""
        self._wanted.clear()
        self._pausing.set()
        await self._terminate(grace)
        await self._paused.wait()

    async def stop(self, grace: float) -> None:
        """Stops the process for good: SIGTERM, then SIGKILL after `grace` seconds. Idempotent."""
        self._wanted.clear()
        await self._terminate(grace)
        if not self._loop.running:  # never started
            return
        await self._loop.close()
        self._set("stopped" if self.state.condition != "failed" else "failed", pid=0, birth="")

    async def wait_served(self) -> None:
        """Waits until the process serves no more: it has removed its ready file, or has ended. Its exports after that
        delay no other process."""
        ready = self._home.ready_file(self.spec.name)
        while self._process is not None:
            if self._process.returncode is not None or not ready.exists():
                return
            await asyncio.sleep(_POLL)

    def kill(self) -> None:
        """Sends SIGKILL to the process and its own children."""
        if self._process is not None and self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def log_excerpt(self) -> str:
        """Returns the last log lines of the current or last process, and says where they are from."""
        return f"last lines of {self._log}:\n{last_lines(self._log, offset=self._log_offset)}"

    @property
    def _log(self) -> Path:
        return self._home.log_file(self.spec.name)

    async def _terminate(self, grace: float) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        for signum in (signal.SIGTERM, signal.SIGCONT):  # a stopped process handles SIGTERM only once it continues
            try:
                process.send_signal(signum)
            except ProcessLookupError:
                pass
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()

    async def _keep_running(self) -> None:
        backoff, start_failures = BACKOFF, 0
        while True:
            healthy_for = await self._wait()
            if not self._wanted.is_set() or not self._restarts:
                self._wanted.clear()
                self._set("stopped", pid=0, birth="", detail="" if self._restarts else self._exit_text())
                self._paused.set()
                await self._wanted.wait()
                backoff, start_failures = BACKOFF, 0
            else:
                start_failures = 0 if healthy_for > 0 else start_failures + 1
                if healthy_for > STABLE:
                    backoff = BACKOFF
                if start_failures >= MAX_START_FAILURES or self._returncode == USAGE_EXIT_CODE:
                    self._set("failed", pid=0, birth="", detail=f"cannot start: {self._exit_text()}")
                else:
                    self._set("restarting", pid=0, birth="", detail=self._exit_text())
                await self._delay(backoff)
                backoff = min(MAX_BACKOFF, backoff * 2)
                if not self._wanted.is_set():
                    continue
                self.state = replace(self.state, restarts=self.state.restarts + 1)
            self._paused.clear()
            await self._spawn()
            if not self._wanted.is_set() and self._process is not None:  # `pause` found no process to stop
                self._process.terminate()

    async def _delay(self, seconds: float) -> None:
        """Waits before a restart, at most until `pause` is called."""
        self._pausing.clear()
        if self._wanted.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._pausing.wait()
            except TimeoutError:
                pass

    async def _spawn(self, forks: ForkServer | None = None) -> None:
        self._home.ready_file(self.spec.name).unlink(missing_ok=True)
        self._log_offset = self._log.stat().st_size if self._log.exists() else 0
        self._oom_kills = oom_kills()
        forked = await forks.fork(self.spec.command, self.spec.environment, self._log) if forks is not None else None
        self._process = forked or await self._execute()
        pid = self._process.pid
        self._set(
            "starting",
            pid=pid,
            birth=start_ticks(pid),
            address=self.spec.address,
            started=time.time(),
            started_awake=time.monotonic(),
            detail="",
        )

    async def _execute(self) -> asyncio.subprocess.Process:
        command = self.spec.command
        if sys.platform == "linux":
            command = (sys.executable, "-I", "-S", _PARENT_DEATH, str(os.getpid()), *command)
        if self.spec.folder is not None:
            private_folder(self.spec.folder)
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *command,
                env=dict(self.spec.environment),
                cwd=self.spec.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal reaches the supervisor only
            )

    async def _wait(self) -> float:
        """Waits for the exit of the process; returns the seconds since its first healthy answer, or 0."""
        assert self._process is not None
        checking = asyncio.create_task(self._check(), name=f"check {self.spec.name}")
        try:
            await self._process.wait()
        finally:
            checking.cancel()
            await asyncio.wait([checking])
        healthy_since = checking.result() if not checking.cancelled() else 0.0
        return time.monotonic() - healthy_since if healthy_since else 0.0

    async def _check(self) -> float:
        """Probes the process until cancelled; then returns when it was first healthy, 0 if it never was."""
        healthy_since, misses = 0.0, 0
        try:
            address = await self._address()
            async with Probe(
                self.spec.kind, address, self.spec.role or self.spec.name, certificate=self._certificate
            ) as probe:
                while True:
                    if await probe.serves():
                        healthy_since, misses = healthy_since or time.monotonic(), 0
                        self._set("healthy", address=address, detail="")
                    elif healthy_since:
                        misses += 1
                        if misses > 1:
                            self._set("silent", detail="no answer to health checks")
                    if healthy_since:
                        await self._limit_log()
                    await asyncio.sleep(_CHECK_INTERVAL if healthy_since else _POLL)
        except asyncio.CancelledError:
            return healthy_since

    async def _limit_log(self) -> None:
        try:
            if await asyncio.to_thread(limit_size, self._log):
                self._log_offset = 0
        except OSError as error:
            _log.warning("the log %s cannot be kept small: %s", self._log, error)

    async def _address(self) -> str:
        """Waits for the ready file of the process, which has its address. etcd and Jaeger write none: their addresses
        are planned."""
        ready = self._home.ready_file(self.spec.name)
        while self.spec.kind not in EXTERNAL:
            if ready.exists():
                return ready.read_text().strip()
            await asyncio.sleep(_POLL)
        return self.spec.address

    @property
    def _returncode(self) -> int:
        return 0 if self._process is None or self._process.returncode is None else self._process.returncode

    def _exit_text(self) -> str:
        code = self._returncode
        if code >= 0:
            return f"exited with code {code}"
        because = ", as memory ran out" if code == -signal.SIGKILL and oom_kills() > self._oom_kills else ""
        return f"killed by {signal.Signals(-code).name}{because}"

    def _set(self, condition: Condition, **changes: Any) -> None:
        state = replace(self.state, condition=condition, **changes)
        if state != self.state:
            self.state = state
            self._changed()
