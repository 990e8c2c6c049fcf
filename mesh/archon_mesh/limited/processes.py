"""The processes in which a function of a module runs, within limits of time and memory.

A process answers one request after the other. One that exceeds a limit ends, and the next request gets a new one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from archon import errors
from archon.errors import ArchonError, InvalidArgument, ResourceExhausted, Unavailable
from archon.threads import on_thread

_log = logging.getLogger(__name__)

CHILD: Final = Path(__file__).with_name("child.py")
PACKAGES: Final = ("archon", "archon_mesh")

WAIT_SECONDS: Final = 30.0
"""Seconds that a request waits for a process that is free."""

START_SECONDS: Final = 10.0
"""Seconds that the start of a process may take beside its first request."""

END_SECONDS: Final = 5.0
"""Seconds within which a killed process is gone."""

MAX_IDLE: Final = 2
"""Processes that wait for the next request."""

MB: Final = 1024 * 1024

_SIGNALS: Final = {-signal.SIGPROF: "cpu", -signal.SIGALRM: "time", -signal.SIGXFSZ: "files"}


class LimitExceeded(Exception):
    """A request exceeded a limit: `limit` is cpu, time, memory, files or reply."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class LimitedProcesses:
    """Runs the function `answer` of a module in processes of their own, at most `at_once` at a time.

    The function takes and returns JSON values. Its module is imported without the `__init__` of its packages, so that
    a process starts in a fifth of a second.
    """

    def __init__(
        self, module: str, *, memory_bytes: int, at_once: int, file_bytes: int = 0, max_reply: int = 16 * MB
    ) -> None:
        """`memory_bytes` limits the address space of a process, `file_bytes` a file that it writes, and `max_reply`
        the bytes of a reply."""
        self._module = module
        self._memory_bytes = memory_bytes
        self._file_bytes = file_bytes
        self._max_reply = max_reply
        self._free = threading.Semaphore(at_once)
        self._idle: list[_Process] = []
        self._lock = threading.Lock()

    def call(
        self,
        value: Any,
        *,
        cpu_seconds: float,
        seconds: float,
        cancelled: Cancelled | None = None,
        on_start: Callable[[], None] = lambda: None,
    ) -> Any:
        """Returns the answer to a value; blocks the thread. Calls `on_start` once a process is free.

        Raises LimitExceeded, ResourceExhausted if no process becomes free, Unavailable if the process ends by another
        cause, and the ArchonError that the function raised; InvalidArgument for any other error of it.
        """
        if not self._free.acquire(timeout=WAIT_SECONDS):
            raise ResourceExhausted(f"no process for {self._module} became free", retry_delay=1.0)
        try:
            on_start()
            reply = self._reply({"value": value, "seconds": [cpu_seconds, seconds]}, seconds, cancelled or Cancelled())
        finally:
            self._free.release()
        if "limit" in reply:
            raise LimitExceeded(reply["limit"])
        if "error" in reply:
            raise _error_of(reply)
        return reply["value"]

    async def call_on_thread(self, value: Any, *, cpu_seconds: float, seconds: float) -> Any:
        """As `call`, on a thread. If the caller is cancelled, the process is killed."""
        cancelled = Cancelled()
        try:
            answer, error = await on_thread(
                lambda: self.call(value, cpu_seconds=cpu_seconds, seconds=seconds, cancelled=cancelled), self._module
            )
        except asyncio.CancelledError:
            cancelled.set()
            raise
        if error is not None:
            raise error
        return answer

    def _reply(self, request: dict[str, Any], seconds: float, cancelled: Cancelled) -> dict[str, Any]:
        body = json.dumps(request).encode()
        if (waiting := self._take()) is not None:
            try:
                return self._asked(waiting, body, seconds, cancelled)
            except Unavailable as error:  # it was killed while it waited, as by the system for want of memory
                if cancelled.is_set:
                    raise
                _log.info("another process is asked: %s", error)
        return self._asked(_Process(self._command()), body, seconds, cancelled)

    def _asked(self, process: _Process, body: bytes, seconds: float, cancelled: Cancelled) -> dict[str, Any]:
        cancelled.kills(process)
        try:
            data = process.ask(body, START_SECONDS + seconds, self._max_reply)
        except BaseException:
            process.kill()
            raise
        cancelled.kills(None)
        reply: dict[str, Any] = json.loads(data)
        with self._lock:
            is_kept = "limit" not in reply and len(self._idle) < MAX_IDLE
            if is_kept:
                self._idle.append(process)
        if not is_kept:
            process.kill()
        return reply

    def _take(self) -> _Process | None:
        """Returns a process that waits, or None."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    return process
                process.kill()
        return None

    def _command(self) -> list[str]:
        config = {
            "module": self._module,
            "paths": [path for path in sys.path if path],
            "packages": {name: list(sys.modules[name].__path__) for name in PACKAGES},
            "memory_bytes": self._memory_bytes,
            "file_bytes": self._file_bytes,
        }
        return [sys.executable, "-I", "-S", str(CHILD), json.dumps(config)]


class Cancelled:
    """Whether the caller of a request has given up, which kills the process that works on it."""

    def __init__(self) -> None:
        self._is_set = False
        self._process: _Process | None = None
        self._lock = threading.Lock()

    @property
    def is_set(self) -> bool:
        """Whether the caller has given up."""
        return self._is_set

    def set(self) -> None:
        """Gives up: kills the process of the call if it runs, and no later one is started."""
        with self._lock:
            self._is_set = True
            if self._process is not None:
                self._process.interrupt()

    def kills(self, process: _Process | None) -> None:
        """Names the process that works on the request, None once it has answered."""
        with self._lock:
            self._process = process
            if self._is_set and process is not None:
                process.interrupt()


class _Process:
    def __init__(self, command: list[str]) -> None:
        """Raises Unavailable if the process cannot be started."""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"a process with limits cannot be started: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, request: bytes, seconds: float, max_reply: int) -> bytes:
        """Returns the reply to a request. Raises LimitExceeded, and Unavailable if the process has ended."""
        end = time.monotonic() + seconds
        data = len(request).to_bytes(4) + request
        while data:
            self._wait(self._in, select.POLLOUT, end)
            try:
                data = data[os.write(self._in, data) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._ended() from None
        size = int.from_bytes(self._read(4, end))
        if size > max_reply:
            raise LimitExceeded("reply")
        return self._read(size, end)

    def interrupt(self) -> None:
        """Kills the process, from any thread. `ask` notices it."""
        self._process.kill()

    def kill(self) -> None:
        """Kills the process if it runs, and closes its pipes."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def _read(self, size: int, end: float) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            self._wait(self._out, select.POLLIN, end)
            piece = os.read(self._out, min(size, MB))
            if not piece:
                raise self._ended()
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _wait(self, pipe: int, event: int, end: float) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise LimitExceeded("time")

    def _ended(self) -> Exception:
        code = self._process.wait(END_SECONDS)
        if code in _SIGNALS:
            return LimitExceeded(_SIGNALS[code])
        return Unavailable(f"a process with limits has ended with the exit code {code}")


def _error_of(reply: dict[str, Any]) -> ArchonError:
    """Returns the error of the tree that the function raised, or InvalidArgument in place of another exception."""
    kind = getattr(errors, reply["type"], None)
    if isinstance(kind, type) and issubclass(kind, ArchonError):
        return kind(reply["error"], kind=reply["kind"])
    return InvalidArgument(f"{reply['type']}: {reply['error'][:300]}")
