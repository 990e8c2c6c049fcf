"""The process of a subject: its lines, its signals and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a line on standard output."""

_KEPT: Final = 200
"""Lines of standard error that a report has."""

_UNSET: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class SubjectFailed(Exception):
    """The subject did not start, has ended, or wrote a line that is no JSON."""


class Subject:
    """A subject in one mode, from `start` to `stop`. `folder` receives its standard error."""

    def __init__(self, command: Sequence[str], mode: str, environment: Mapping[str, str], folder: Path) -> None:
        self._command = [*command, mode]
        self._environment = dict(environment)
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self.ready: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        """Lines after the first one, in order."""
        self.error = ""
        """Why its output cannot be read."""

    async def start(self, timeout: float) -> None:
        """Starts the process and waits for its first line. Raises SubjectFailed."""
        environment = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("ARCHON_", "GRPC_")) and name.upper() not in _UNSET
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "stderr").open("wb") as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env={**environment, **self._environment},
                    limit=_LIMIT,
                )
            except OSError as error:
                raise SubjectFailed(f"cannot start {self._command[0]}: {error.strerror}") from None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                first = await self._process.stdout.readline()
        except TimeoutError:
            await self.stop()
            raise SubjectFailed(f"the subject wrote no line within {timeout:g} s; {self.log()}") from None
        try:
            self.ready = json.loads(first)["ready"]
        except (ValueError, KeyError, TypeError):
            await self.stop()
            raise SubjectFailed(f"the first line is not {{'ready': ...}}: {first[:200]!r}; {self.log()}") from None
        self._reader = asyncio.create_task(self._read(self._process.stdout), name="conformance: read a subject")

    async def _read(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            async with self._changed:
                try:
                    self.lines.append(json.loads(line))
                except ValueError:
                    self.error = f"a line on standard output is not JSON: {line[:200]!r}"
                self._changed.notify_all()
        async with self._changed:
            self._changed.notify_all()

    async def call(self, line: Mapping[str, Any]) -> None:
        """Writes a line to standard input."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        await self._process.stdin.drain()

    def end_input(self) -> None:
        """Ends standard input."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def changed(self) -> None:
        """Waits for the next line, or the end of the output."""
        if self._reader is not None and self._reader.done():
            raise SubjectFailed(f"the subject has ended; {self.log()}")
        async with self._changed:
            await self._changed.wait()

    def signal(self, name: str) -> None:
        """Sends a signal such as TERM."""
        assert self._process is not None
        self._process.send_signal(signal.Signals[f"SIG{name}"])

    async def exited(self) -> int:
        """Waits for the end of the process, and returns its exit code."""
        assert self._process is not None
        return await self._process.wait()

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.returncode is None

    def log(self) -> str:
        """Returns the last lines of standard error."""
        with (self._folder / "stderr").open(errors="replace") as log:
            lines = deque(log, maxlen=_KEPT)
        return "standard error: " + ("".join(lines)[-4000:].strip() or "(empty)")

    async def stop(self) -> None:
        """Ends the process, and kills it if it is still there after 2 s. Idempotent."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    process.send_signal(number)
                    async with asyncio.timeout(2.0):
                        await process.wait()
                        break
                except (TimeoutError, ProcessLookupError):
                    continue
        if self._reader is not None:
            await asyncio.wait([self._reader], timeout=2.0)
            self._reader.cancel()
