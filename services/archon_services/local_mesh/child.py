"""One process under the supervisor's care: started, watched, started again, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from archon_services.local_mesh.home import Home
from archon_services.local_mesh.plan import ProcessSpec
from archon_services.local_mesh.probe import Probe
from archon_services.local_mesh.state import Condition, ProcessState, birth_of

BACKOFF: Final = 0.5
MOST_BACKOFF: Final = 10.0
SETTLED: Final = 10.0
"""Seconds in health after which an end counts as the first again."""

USELESS: Final = 3
"""Ends in a row, none of them after health, that say: this process can't start."""

WRONG_USAGE: Final = 2
"""The exit code of a process that was told nonsense: it will not fare better another time."""

_LOOK: Final = 0.03
_CHECK: Final = 2.0
_LEASH: Final = str(Path(__file__).with_name("parent_death.py"))


class Child:
    """`changed` is called after every change of `state`. Its task ends with `stop`."""

    def __init__(self, spec: ProcessSpec, home: Home, changed: Callable[[], None], *, restarts: bool = True) -> None:
        self.spec = spec
        self.state = ProcessState(spec.name, spec.kind, "starting", address=spec.address)
        self._home = home
        self._changed = changed
        self._restarts = restarts
        self._wanted = asyncio.Event()
        self._held = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._log_from = 0

    async def start(self) -> None:
        """Starts the process; from then on it is started again whenever it ends."""
        self._wanted.set()
        if self._task is None:
            await self._spawn()
            self._task = asyncio.create_task(self._keep(), name=f"keep {self.spec.name}")

    async def pause(self, grace: float) -> None:
        """Ends the process and leaves it so until `start`."""
        self._wanted.clear()
        await self._end(grace)
        await self._held.wait()

    async def stop(self, grace: float) -> None:
        """Ends the process for good: SIGTERM, and SIGKILL after `grace` seconds. Idempotent."""
        self._wanted.clear()
        await self._end(grace)
        if self._task is None:  # never started
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        self._set("stopped" if self.state.condition != "failed" else "failed", pid=0, birth="")

    def kill(self) -> None:
        """SIGKILL for the process and what it started itself."""
        if self._process is not None and self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def log_end(self, lines: int = 15) -> str:
        """The end of what the last process wrote to its log."""
        with self._log.open("rb") as log:
            log.seek(self._log_from)
            text = log.read().decode(errors="replace")
        return "\n".join(text.rstrip().splitlines()[-lines:])

    @property
    def _log(self) -> Path:
        return self._home.log_file(self.spec.name)

    async def _end(self, grace: float) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process would never see the first
            try:
                process.send_signal(number)
            except ProcessLookupError:
                pass
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()

    async def _keep(self) -> None:
        backoff, useless = BACKOFF, 0
        while True:
            healthy_for = await self._watch()
            if not self._wanted.is_set() or not self._restarts:
                self._wanted.clear()
                self._set("stopped", pid=0, birth="", detail="" if self._restarts else self._how_it_ended())
                self._held.set()
                await self._wanted.wait()
                backoff, useless = BACKOFF, 0
            else:
                useless = 0 if healthy_for > 0 else useless + 1
                if healthy_for > SETTLED:
                    backoff = BACKOFF
                if useless >= USELESS or self._returncode == WRONG_USAGE:
                    self._set("failed", pid=0, birth="", detail=f"can't start: {self._how_it_ended()}")
                else:
                    self._set("restarting", pid=0, birth="", detail=self._how_it_ended())
                await asyncio.sleep(backoff)
                backoff = min(MOST_BACKOFF, backoff * 2)
            self._held.clear()
            self.state = replace(self.state, restarts=self.state.restarts + 1)
            if self._wanted.is_set():
                await self._spawn()

    async def _spawn(self) -> None:
        ready = self._home.ready_file(self.spec.name)
        ready.unlink(missing_ok=True)
        command = self.spec.command
        if sys.platform == "linux":
            command = (sys.executable, "-I", "-S", _LEASH, str(os.getpid()), *command)
        with self._log.open("ab") as log:
            self._log_from = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(self.spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is the supervisor's to hear
            )
        pid = self._process.pid
        self._set("starting", pid=pid, birth=birth_of(pid), address=self.spec.address, started=time.time(), detail="")

    async def _watch(self) -> float:
        """Until the process has ended; returns for how many seconds it was seen in health."""
        assert self._process is not None
        checking = asyncio.create_task(self._check(), name=f"check {self.spec.name}")
        try:
            await self._process.wait()
        finally:
            checking.cancel()
            await asyncio.wait([checking])
        since = checking.result() if not checking.cancelled() else 0.0
        return time.monotonic() - since if since else 0.0

    async def _check(self) -> float:
        """Sees the process become healthy, and whether it stays so; when cancelled, returns since when it was."""
        since, misses = 0.0, 0
        try:
            address = await self._address()
            async with Probe(self.spec.kind, address) as probe:
                while True:
                    if await probe.serves():
                        since, misses = since or time.monotonic(), 0
                        self._set("healthy", address=address, detail="")
                    elif since:
                        misses += 1
                        if misses > 1:
                            self._set("silent", detail="it runs, but doesn't answer")
                    await asyncio.sleep(_CHECK if since else _LOOK)
        except asyncio.CancelledError:
            return since

    async def _address(self) -> str:
        """As the process says it in its ready file; etcd writes none."""
        ready = self._home.ready_file(self.spec.name)
        while self.spec.kind != "etcd":
            if ready.exists():
                return ready.read_text().strip()
            await asyncio.sleep(_LOOK)
        return self.spec.address

    @property
    def _returncode(self) -> int:
        return 0 if self._process is None or self._process.returncode is None else self._process.returncode

    def _how_it_ended(self) -> str:
        code = self._returncode
        return f"ended with exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"

    def _set(self, condition: Condition, **changes: Any) -> None:
        state = replace(self.state, condition=condition, **changes)
        if state != self.state:
            self.state = state
            self._changed()
