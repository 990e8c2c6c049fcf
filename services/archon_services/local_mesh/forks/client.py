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
            _become_subreaper(on=False)

    async def fork(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedProcess | None:
        """Runs `python -P -m MODULE ARGUMENTS` with this environment, and its output in `log`. None if it cannot: then
        start the process otherwise."""
        module = module_of(command)
        if self._connection is None or not module:
            return None
        request = {"command": command, "arguments": module, "environment": dict(environment), "log": str(log)}
        try:
            async with asyncio.timeout(ANSWERS_WITHIN), self._lock:
                return await self._exchange(json.dumps(request).encode())
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
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
        ours.setblocking(False)
        arguments = [str(theirs.fileno()), str(os.getpid()), ",".join(self._modules)]
        room = " " * 256  # for longer command lines of the processes
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", _SERVER, *arguments, room],
                env=dict(self._environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what keeps it from starting is in the log of each process, too
                start_new_session=True,
            )
        _become_subreaper(on=True)
        self._connection = ours

    def _give_up(self, error: Exception) -> None:
        _log.info("processes are started without the server of forks: %s", error or type(error).__name__)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def module_of(command: Sequence[str]) -> list[str]:
    """Returns the module that a command runs by this Python, and its arguments; empty if it is another command."""
    return list(command[3:]) if tuple(command[:3]) == (sys.executable, "-P", "-m") else []


def _become_subreaper(*, on: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
