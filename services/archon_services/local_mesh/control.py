"""The control socket of a mesh: commands to its supervisor while it runs.

A Unix socket in the folder of the mesh, for its owner alone. A client sends one command as a line of JSON, such as
`{"restart": ["designer"]}`, and receives lines of JSON: `{"step": TEXT}` any number of times, then `{"done": true}` or
`{"error": {"kind": CLASS, "message": TEXT}}`. A command continues if its client leaves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from archon import errors
from archon.background import BackgroundLoop
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.home import Home

MAX_REQUEST: Final = 64 * 1024
"""Bytes of a command."""

MAX_CONNECTIONS: Final = 8

CALL_TIMEOUT: Final = 5.0
"""Seconds to connect, and to send or receive a command."""

STEP_TIMEOUT: Final = 120.0
"""Seconds between two lines of a response."""

_MAX_NAME: Final = 100
"""Bytes that the name of a socket may have on every system."""

_log = logging.getLogger(__name__)

_KINDS: Final = (
    *(errors.UnknownRole, errors.InvalidArgument, errors.FailedPrecondition, errors.ResourceExhausted),
    *(errors.DeadlineExceeded, StartFailed),
)

Report = Callable[[str], None]
Execute = Callable[[str, Any, Report], Awaitable[None]]


class ControlServer:
    """Serves the control socket from `start` to `close`. `execute` gets the name and the value of each command, and
    reports its steps; an ArchonError that it raises is sent to the client."""

    def __init__(self, home: Home, execute: Execute) -> None:
        self._home = home
        self._execute = execute
        self._loop = BackgroundLoop("control socket", self._serve, expected=(OSError,))
        self._connections: set[asyncio.Task[None]] = set()
        self._tried = asyncio.Event()

    async def start(self) -> None:
        """Returns when the socket accepts commands, or cannot: then it is tried again in the background. Idempotent."""
        self._loop.start()
        async with asyncio.timeout(CALL_TIMEOUT):
            await self._tried.wait()

    async def close(self) -> None:
        """Cancels commands in progress and removes the socket. Idempotent."""
        await self._loop.close()

    async def _serve(self) -> None:
        path = self._home.control_socket
        path.unlink(missing_ok=True)
        with _short_name(path) as name:
            try:
                server = await asyncio.start_unix_server(self._accept, name, limit=MAX_REQUEST)
            finally:
                self._tried.set()
            try:
                path.chmod(0o600)
                await server.serve_forever()
            finally:
                server.close()
                path.unlink(missing_ok=True)
                for connection in self._connections:
                    connection.cancel()
                await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._answer(reader, writer), name="control connection")
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                raise errors.ResourceExhausted("the mesh serves too many commands: try again later")
            command, value = await _read_command(reader)
            await self._execute(command, value, lambda text: _write(writer, {"step": text}))
            _write(writer, {"done": True})
        except errors.ArchonError as error:
            _write(writer, {"error": {"kind": type(error).__name__, "message": str(error)}})
        except Exception as error:  # noqa: BLE001 - a mistake in a command must not leave its client without an answer
            _log.exception("a command failed")
            _write(writer, {"error": {"kind": "", "message": f"the command failed: {type(error).__name__}"}})
        finally:
            writer.close()


async def send_command(home: Home, command: Mapping[str, Any], report: Report) -> None:
    """Sends a command to the supervisor of this folder and waits for its end; `report` gets its steps.

    Raises Unavailable if no supervisor answers, DeadlineExceeded if one stops answering, and the error of the command.
    """
    try:
        with _short_name(home.control_socket) as name:
            async with asyncio.timeout(CALL_TIMEOUT):
                reader, writer = await asyncio.open_unix_connection(name, limit=MAX_REQUEST)
    except (OSError, TimeoutError):
        raise errors.Unavailable(f"the mesh in {home.root} accepts no commands") from None
    try:
        _write(writer, command)
        while True:
            match await _read_answer(home, reader):
                case {"step": str(text)}:
                    report(text)
                case {"error": {"kind": kind, "message": str(message)}}:
                    raise next((known for known in _KINDS if known.__name__ == kind), errors.ArchonError)(message)
                case _:
                    return
    finally:
        writer.close()


async def _read_answer(home: Home, reader: asyncio.StreamReader) -> Any:
    """Returns the next message of the supervisor. Raises Unavailable, DeadlineExceeded."""
    try:
        async with asyncio.timeout(STEP_TIMEOUT):
            line = await reader.readline()
    except TimeoutError:
        raise errors.DeadlineExceeded(f"the mesh in {home.root} does not answer") from None
    except OSError:
        line = b""
    if not line:
        raise errors.Unavailable(f"the mesh in {home.root} has stopped")
    return json.loads(line)


async def _read_command(reader: asyncio.StreamReader) -> tuple[str, Any]:
    """Returns the name and the value of a command. Raises InvalidArgument."""
    try:
        async with asyncio.timeout(CALL_TIMEOUT):
            content = json.loads(await reader.readline())
    except (ValueError, TimeoutError, OSError, RecursionError):  # readline raises ValueError above MAX_REQUEST
        content = None
    if not isinstance(content, dict) or len(content) != 1:
        raise errors.InvalidArgument("invalid command")
    command, value = next(iter(content.items()))
    return str(command), value


def _write(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    # Not drained: a client that does not read must not delay the command, and its messages are few.
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


@contextmanager
def _short_name(path: Path) -> Iterator[str]:
    """Yields a name of the socket, which systems limit to about 100 bytes: on Linux a deep folder has a shorter one."""
    if len(os.fsencode(path)) <= _MAX_NAME:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
