"""Starts the fork server, and has it fork processes."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from archon_services.local_mesh.forks.process import ForkedProcess
from archon_services.local_mesh.forks.server import MAX_REQUEST

_log = logging.getLogger(__name__)

ANSWERS_WITHIN: Final = 60.0
"""Seconds for an answer of the server: the first ones wait for its imports."""

_PR_SET_CHILD_SUBREAPER: Final = 36
_PYTHON: Final = (sys.executable, "-P", "-m")
_SERVER: Final = "archon_services.local_mesh.forks.server"


class ForkServer:
    """A server for the time in which many processes are started. Use it as a context manager: inside the block this
    process is the subreaper of its descendants. Linux only; elsewhere, and after a failure, `fork` returns None."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._modules = modules
        self._environment = environment
        self._connection: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> ForkServer:
        if sys.platform == "linux":
            try:
                self._start()
            except OSError as error:  # for example a kernel without pidfd_open
                self._give_up(error)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._server is not None:
            self._server.kill()
            await asyncio.to_thread(self._server.wait)
            become_subreaper(on=False)

    async def fork(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedProcess | None:
        """Runs `python -P -m MODULE ARGUMENTS` with this environment, and its output in `log`. None if it cannot: then
        start the process otherwise."""
        module = module_of(command)
        if self._connection is None or not module:
            return None
        request = request_of(module, environment, {1: log, 2: log})
        try:
            async with asyncio.timeout(ANSWERS_WITHIN), self._lock:
                return await self._exchange(request)
        except (OSError, TimeoutError, ValueError) as error:
            self._give_up(error)
            return None

    async def _exchange(self, request: bytes) -> ForkedProcess:
        loop, connection = asyncio.get_running_loop(), self._connection
        if connection is None:
            raise OSError("the server of forks has ended")
        await loop.sock_sendall(connection, request)
        return ForkedProcess(int(await loop.sock_recv(connection, 64)))

    def _start(self) -> None:
        os.close(os.pidfd_open(os.getpid()))
        self._server, self._connection = start_server(self._modules, self._environment)
        self._connection.setblocking(False)
        become_subreaper(on=True)

    def _give_up(self, error: Exception) -> None:
        _log.info("processes are started without the server of forks: %s", error or type(error).__name__)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def module_of(command: Sequence[str]) -> list[str]:
    """Returns the module that a command runs by this Python, and its arguments; empty if it is another command."""
    return list(command[len(_PYTHON) :]) if tuple(command[: len(_PYTHON)]) == _PYTHON else []


def request_of(module: Sequence[str], environment: Mapping[str, str], files: Mapping[int, Path]) -> bytes:
    """Returns the request to run a module with these arguments. `files` are opened as its file descriptors."""
    request = {
        "command": [*_PYTHON, *module],
        "arguments": list(module),
        "environment": dict(environment),
        "files": {descriptor: str(file) for descriptor, file in files.items()},
    }
    return json.dumps(request).encode()


def start_server(
    modules: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a server that imports the modules; its forks become children of this process if this is a subreaper when
    they start. Returns the server and the connection to it: it answers a request with a process id, and ends when the
    connection is closed. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
    room = " " * 256  # for longer command lines of the processes
    with theirs:
        server = subprocess.Popen(
            [*_PYTHON, _SERVER, str(theirs.fileno()), str(os.getpid()), ",".join(modules), room],
            env=dict(environment),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # the error of a failed start is in the log of each process, too
            start_new_session=True,
        )
    return server, ours


def become_subreaper(*, on: bool) -> None:
    """Makes this process the parent of descendants whose own parent ends (prctl(2)), or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
