"""How messages travel to an MCP server: through the pipes of a child process, or by HTTP; both bounded in size.

The client of the package reads lines and JSON answers of any length, and gives a child more of the environment than it
needs. Otherwise this follows its `stdio_client`.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from typing_extensions import override

from archon_mesh.tools.credentials import Secret, redacted
from archon_mesh.tools.mcp.diagnosis import Diagnosis, start_failure

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a message of a server."""

MAX_BAD_LINES: Final = 100
"""Lines of a server that are no messages, after which it is ended."""

MAX_LOG_LINE: Final = 2_000
"""Characters of a line that a server writes to standard error, in the log of the agent."""

LAST_LINES_SECONDS: Final = 0.5
"""Seconds to read the last output of a server that has ended: its child processes may hold the pipe open."""

EXIT_SECONDS: Final = 2.0
"""Seconds that a server has to exit after its input was closed, and again after SIGTERM."""

_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


def environment_of(given: Mapping[str, str], inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment of a server: the variables given by its author, and those that programs need to start."""
    return {name: inherited[name] for name in _INHERITED if name in inherited} | dict(given)


@asynccontextmanager
async def stdio(
    name: str, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None, diagnosis: Diagnosis
) -> AsyncIterator[TransportStreams]:
    """Starts a server as a child process. The streams end when the process does. At the end of the block its whole
    process group is ended, and the diagnosis says whether that needed a signal. Raises FailedPrecondition if it cannot
    be started, Unavailable if the system cannot start it now."""
    import anyio
    from mcp.shared.message import SessionMessage

    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment_of(env),
            cwd=cwd,
            limit=MAX_MESSAGE_BYTES,
            start_new_session=True,
        )
    except OSError as error:
        raise start_failure(name, command, cwd, error) from None
    secrets = [Secret(value) for value in env.values()]

    def shown(text: str) -> str:
        """Returns a text of the server without the values of its environment, for the log."""
        return str(redacted(text, secrets))

    to_session, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    errors = asyncio.create_task(_log_errors(name, process, diagnosis, shown), name=f"log of MCP server {name}")
    tasks = [
        errors,
        asyncio.create_task(_read(name, process, to_session, shown), name=f"read from MCP server {name}"),
        asyncio.create_task(_write(process, from_session, to_session), name=f"write to MCP server {name}"),
    ]
    try:
        yield read_stream, write_stream
    finally:
        with anyio.CancelScope(shield=True):
            diagnosis.exit_code = await _end(process)
            await asyncio.wait({errors}, timeout=LAST_LINES_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_session, read_stream, write_stream, from_session):
                stream.close()
            transport: Any = getattr(process, "_transport", None)
            if transport is not None:
                transport.close()  # a child of the server may hold the pipes open


async def _read(name: str, process: asyncio.subprocess.Process, to_session: Any, shown: Callable[[str], str]) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert process.stdout is not None
    bad_lines = 0
    try:
        async with to_session:
            while line := await process.stdout.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(_without_banner(line), by_name=False)
                except (ValueError, RecursionError):
                    text = shown(line[:MAX_LOG_LINE].decode(errors="replace"))
                    _log.warning("MCP server %s sends a line that is no message: %.200r", name, text)
                    bad_lines += 1
                    if bad_lines > MAX_BAD_LINES:
                        _log.error("MCP server %s sends more than %d such lines; it is ended", name, MAX_BAD_LINES)
                        return
                    continue
                await to_session.send(SessionMessage(message))
    except ValueError:  # of readline
        _log.error("MCP server %s sends a message of more than %d bytes; it is ended", name, MAX_MESSAGE_BYTES)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        pass


def _without_banner(line: bytes) -> bytes:
    """Returns the message of a line. Some servers begin with a byte order mark, or with a greeting that has no end of
    line."""
    line = line.removeprefix(codecs.BOM_UTF8).lstrip()
    return line if line.startswith((b"{", b"[")) else line[max(0, line.find(b"{")) :]


async def _write(process: asyncio.subprocess.Process, from_session: Any, to_session: Any) -> None:
    import anyio

    assert process.stdin is not None
    try:
        async for message in from_session:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await to_session.aclose()


async def _log_errors(
    name: str, process: asyncio.subprocess.Process, diagnosis: Diagnosis, shown: Callable[[str], str]
) -> None:
    assert process.stderr is not None
    while chunk := await process.stderr.read(8_192):
        for line in shown(chunk.decode(errors="replace")).splitlines():
            _log.debug("MCP server %s: %s", name, line[:MAX_LOG_LINE])
            diagnosis.lines.append(line[:MAX_LOG_LINE])


async def _end(process: asyncio.subprocess.Process) -> int | None:
    """Closes the input of a server, as the specification asks for, then sends SIGTERM and SIGKILL to its group. Returns
    the exit code if no signal was needed."""
    exit_code: int | None = None
    if process.stdin is not None:
        process.stdin.close()
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                while process.returncode is None:  # noqa: ASYNC110 - wait() also waits for the end of the pipes
                    await asyncio.sleep(0.01)
                if signum is signal.SIGTERM:
                    exit_code = process.returncode
                break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # processes that the server started and left behind
    return exit_code


@asynccontextmanager
async def http(
    url: str, headers: Mapping[str, str], seconds: float, auth: httpx2.Auth | None, diagnosis: Diagnosis
) -> AsyncIterator[TransportStreams]:
    """Connects to a server by streamable HTTP. Redirects stay within its origin; `auth` may send requests to others.
    The diagnosis has the last answer that refused a message."""
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(seconds, read=300.0)  # a stream of the server may be silent; calls have their own limits
    transport = _BoundedTransport(diagnosis, _proxy_of(url))
    fixed = {**headers, "Accept-Encoding": "identity"}
    async with (
        httpx2.AsyncClient(transport=transport, headers=fixed, timeout=timeout, auth=auth) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _proxy_of(url: str) -> str | None:
    """Returns the proxy that the environment names for a URL (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, except NO_PROXY); a
    server on this machine is reached without one."""
    parts = urlsplit(url)
    if parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy and not proxy_bypass(parts.netloc) else None


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends answers that are too large. Those that are streams of events are bounded by the package, event by event."""

    def __init__(self, diagnosis: Diagnosis, proxy: str | None) -> None:
        super().__init__(proxy=proxy)
        self._diagnosis = diagnosis

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream)
        if request.method == "POST":  # others, such as the stream of the server's own messages, may be refused
            await self._note(response)
        return response

    async def _note(self, response: httpx2.Response) -> None:
        diagnosis = self._diagnosis
        diagnosis.status = response.status_code if response.status_code >= HTTPStatus.BAD_REQUEST else 0
        if diagnosis.status:
            content = await response.aread()
            diagnosis.words, diagnosis.headers = content[:MAX_LOG_LINE].decode(errors="replace"), response.headers


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, chunks = 0, aiter(self._stream)
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > MAX_MESSAGE_BYTES:
                    raise httpx2.ReadError(f"the answer is larger than {MAX_MESSAGE_BYTES:,} bytes")
                yield chunk
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()
