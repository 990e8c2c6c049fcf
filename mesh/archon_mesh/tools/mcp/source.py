"""An MCP server as a source of tools: connected, listed, watched for changes, and connected again after it died."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakSet

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH, TOOL_NETWORK, TOOL_TIMEOUT
from archon_mesh.tools.credentials import Secret, redacted
from archon_mesh.tools.mcp.diagnosis import Diagnosis
from archon_mesh.tools.mcp.listing import list_tools
from archon_mesh.tools.mcp.mending import mend
from archon_mesh.tools.mcp.package import check_installed
from archon_mesh.tools.mcp.questions import ServerQuestions
from archon_mesh.tools.mcp.tool import McpTool
from archon_mesh.tools.registry import ToolRegistry

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

_log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 20.0
"""Seconds to start or reach a server, and to list its tools."""

CALL_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 10.0
LIST_PAUSE: Final = 1.0
"""Seconds between two lists of the tools, however often the server says that they have changed."""

WHY_SECONDS: Final = 1.0
"""Seconds that a failed call waits to learn why the process of its server has ended."""

BACKOFF: Final = 0.5
MAX_BACKOFF: Final = 30.0
"""Seconds before the server is connected again, doubled up to a maximum, with full jitter."""


_CLOSED: Final = "Connection closed"
_TERMINATED: Final = "Session terminated"
"""The package's messages about a lost connection."""

_REFUSED: Final = ("Server returned an error response", "Not Found")
"""The package's messages about an HTTP answer that is an error and no message."""

_PERMANENT: Final = (FailedPrecondition, Unauthenticated, PermissionDenied)


class McpToolSource:
    """The tools of one MCP server, under its name as their namespace: `files.read`.

    Either `command` with `args`, `env` and `cwd` starts the server as a child process, which gets a minimal
    environment and `env`; or `url` with `headers` reaches it by streamable HTTP, where `auth` signs requests, such as
    `mcp.client.auth.OAuthClientProvider` does. `seconds` limits a call. A tool that says that it may destroy is
    dangerous, unless `trusted`. With `may_ask` the server may ask the person behind the agent while a tool is called.
    Use it as a context manager, or call `connect` and `close`.
    """

    def __init__(
        self,
        name: str,
        *,
        command: str = "",
        args: Sequence[str] = (),
        env: Mapping[str, str | Secret] | None = None,
        cwd: str | None = None,
        url: str = "",
        headers: Mapping[str, str | Secret] | None = None,
        auth: httpx2.Auth | None = None,
        seconds: float = CALL_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        trusted: bool = False,
        may_ask: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """Raises InvalidArgument for a name that is no identifier, or unless one of command and url is given, and
        FailedPrecondition if the package `mcp` is not installed."""
        if not name.isidentifier():
            raise InvalidArgument(f"invalid name {name!r} of an MCP server: not an identifier")
        if bool(command) == bool(url):
            raise InvalidArgument(f"MCP server {name}: expected either a command or a URL")
        if url and not url.startswith(("http://", "https://")):
            raise InvalidArgument(f"MCP server {name}: expected an http or https URL")
        if (url and (args or env or cwd)) or (command and (headers or auth)):
            raise InvalidArgument(
                f"MCP server {name}: args, env and cwd belong to a command, headers and auth to a URL"
            )
        check_installed()
        self.name = name
        self._command, self._args, self._cwd = command, list(args), cwd
        self._env = {key: Secret(_text(value)) for key, value in (env or {}).items()}
        self._url = url
        self._headers = {key: Secret(_text(value)) for key, value in (headers or {}).items()}
        self._auth = auth
        self._questions = ServerQuestions(name)
        self.may_ask = may_ask
        self._seconds = seconds
        self._connect_seconds = connect_seconds
        self._trusted = trusted
        self._sleep = sleep
        self._random = random
        self._client: Client | None = None
        self._tools: dict[str, McpTool] = {}
        self._listed: dict[str, ListedTool] = {}
        self._registries: WeakSet[ToolRegistry] = WeakSet()
        self._task: asyncio.Task[None] | None = None
        self._failure: ArchonError | None = None
        self._diagnosis = Diagnosis()
        self._ready, self._broken, self._changed, self._closing, self._ended = (asyncio.Event() for _ in range(5))

    @property
    def tools(self) -> list[McpTool]:
        """The tools that the server listed last."""
        return list(self._tools.values())

    @property
    def is_connected(self) -> bool:
        """Whether the server is connected now."""
        return self._client is not None and not self._broken.is_set()

    async def connect(self) -> None:
        """Connects to the server and lists its tools; does nothing if that is done. Raises Unavailable,
        DeadlineExceeded and ResourceExhausted, and permanent errors: FailedPrecondition, Unauthenticated and
        PermissionDenied."""
        if self._task is None or self._task.done():
            self._ready, self._broken, self._changed, self._closing, self._ended = (asyncio.Event() for _ in range(5))
            self._failure = None
            self._task = asyncio.create_task(self._supervise(), name=f"MCP server {self.name}")
        ready = asyncio.create_task(self._ready.wait(), name="wait for an MCP server")
        try:
            await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if not self._ready.is_set():
            raise self._failure or Unavailable(f"MCP server {self.name} was closed while it was connected")

    def register(self, registry: ToolRegistry) -> None:
        """Registers the tools with a registry, and keeps them as the server lists them."""
        self._registries.add(registry)
        registry.set_namespace(self.name, self._tools.values())

    async def close(self) -> None:
        """Ends the connection and the server. Idempotent."""
        task, self._task = self._task, None
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return
        self._closing.set()
        if not self._ready.is_set():
            task.cancel()  # it is connecting, which may take its whole time
        await asyncio.wait({task}, timeout=CLOSE_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_SECONDS)

    async def __aenter__(self) -> McpToolSource:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def call(self, tool_name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Calls a tool of the server; a cancelled call is cancelled there, too. Raises Unavailable if the server is not
        connected or dies, the error of `connect` if that is why it is not connected, DeadlineExceeded, InvalidArgument,
        UnknownFailure for other errors of the server, and the errors of asking a person if the server may ask."""
        client = self._client
        if client is None or self._broken.is_set():
            if isinstance(self._failure, _PERMANENT):
                raise type(self._failure)(self._failure.message)
            reason = f": {self._failure}" if self._failure is not None else ""
            raise Unavailable(
                f"MCP server {self.name} is not connected{reason}", retry_delay=BACKOFF, kind=TOOL_NETWORK
            )
        with self._questions.during_call():
            try:
                return await client.call_tool(tool_name, arguments, read_timeout_seconds=self._seconds)
            except Exception as error:  # noqa: BLE001 - the package raises errors of all its layers
                failure = self._error_of(error)
                if isinstance(failure, Unavailable) and not self._diagnosis.status and client is self._client:
                    self._failure = failure
                    self._broken.set()
                    failure = await self._why() or failure
                raise failure from None

    async def _why(self) -> ArchonError | None:
        """Returns why a process has ended, once that is known; None if it is not known in time."""
        if not self._command:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(WHY_SECONDS):
                await self._ended.wait()
        return self._failure

    # Supervision -----------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        """Owns the connection. Ends if the first one fails; a later one is tried again until the source is closed."""
        failures = 0
        while not self._closing.is_set():
            self._broken.clear()
            self._ended.clear()
            diagnosis = self._diagnosis = Diagnosis()
            try:
                async with self._connected() as client:
                    self._client, self._failure = client, None
                    failures = 0
                    self._ready.set()
                    await self._watch(client)
                    if not self._closing.is_set() and self._failure is None:
                        self._failure = Unavailable(f"MCP server {self.name} has ended", kind=TOOL_NETWORK)
            except Exception as error:  # noqa: BLE001 - the package raises errors of all its layers
                self._failure = self._error_of(error)
            finally:
                self._client = None
            if isinstance(self._failure, (Unavailable, UnknownFailure)):
                death = diagnosis.death(self.name)
                self._failure = (death and type(death)(self._redacted(death.message), kind=death.kind)) or self._failure
            self._ended.set()
            if self._closing.is_set() or not self._ready.is_set():
                return
            pause = self._random() * min(MAX_BACKOFF, BACKOFF * 2.0**failures)
            failures += 1
            _log.warning("MCP server %s is lost: %s; connecting again in %.1f s", self.name, self._failure, pause)
            await _first(self._closing.wait(), self._sleep(pause))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        from mcp import Client

        from archon_mesh.tools.mcp import transport
        from archon_mesh.tools.mcp.tasks import ServerTasks

        if self._command:
            env = {key: secret.reveal() for key, secret in self._env.items()}
            streams = transport.stdio(self.name, self._command, self._args, env, self._cwd, self._diagnosis)
        else:
            headers = {key: secret.reveal() for key, secret in self._headers.items()}
            streams = transport.http(self._url, headers, self._connect_seconds, self._auth, self._diagnosis)
        async with AsyncExitStack() as stack:
            client = Client(
                _Noticing(self.name, streams, self._broken),
                message_handler=self._notified,
                elicitation_callback=self._questions.answer if self.may_ask else None,
                read_timeout_seconds=self._connect_seconds,
                extensions=[ServerTasks(self._sleep)],
                cache=None,
            )
            async with asyncio.timeout(self._connect_seconds):
                await stack.enter_async_context(client)
                await self._list(client)
            yield client

    async def _watch(self, client: Client) -> None:
        """Lists the tools again when they change, until the connection breaks or the source is closed."""
        listening = asyncio.create_task(self._listen(client), name=f"changes of MCP server {self.name}")
        try:
            while True:
                await _first(self._closing.wait(), self._broken.wait(), self._changed.wait())
                if self._closing.is_set() or self._broken.is_set():
                    return
                self._changed.clear()
                async with asyncio.timeout(self._connect_seconds):
                    await self._list(client)
                await _first(self._closing.wait(), self._broken.wait(), self._sleep(LIST_PAUSE))
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, client: Client) -> None:
        """Waits for changes of the tools on a connection of the newer protocol, which reports them only on request."""
        from mcp.client.subscriptions import ListenNotSupportedError

        try:
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self._changed.set()
        except ListenNotSupportedError:
            return
        except Exception as error:  # noqa: BLE001 - without changes, the first list stays
            _log.debug("MCP server %s does not tell about changes: %s", self.name, self._redacted(str(error)))

    async def _notified(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(getattr(message, "root", message), ToolListChangedNotification):
            self._changed.set()

    async def _list(self, client: Client) -> None:
        """Takes over the list of the server. A tool that has not changed keeps its health and its breaker."""
        listed = {each.name: each for each in await list_tools(client, self.name)}
        self._tools = {
            name: self._tools[name]
            if self._listed.get(name) == each and name in self._tools
            else McpTool(self, each, seconds=self._seconds + 1.0, trusted=self._trusted)
            for name, each in listed.items()
        }
        self._listed = listed
        for registry in list(self._registries):
            registry.set_namespace(self.name, self._tools.values())

    @property
    def _address(self) -> str:
        """The server's address, without possible secrets in its URL; empty for a process."""
        parts = urlsplit(self._url)
        return f" at {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if self._url else ""

    def _redacted(self, text: str) -> str:
        values = [*self._env.values(), *self._headers.values()]
        # A server may repeat the credentials of a header without its scheme, such as Bearer.
        bare = [Secret(value.reveal().partition(" ")[2]) for value in self._headers.values()]
        return str(redacted(text, [*values, *bare]))[:1_000]

    def _error_of(self, error: BaseException) -> ArchonError:
        """Returns the error for one of the package, without the secrets of the server."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ArchonError):
            return error
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT

        message = self._redacted(str(error)) or type(error).__name__
        if isinstance(error, MCPError):
            if error.code == REQUEST_TIMEOUT:
                return DeadlineExceeded(f"MCP server {self.name} does not answer in time", kind=TOOL_TIMEOUT)
            if error.code == INVALID_PARAMS:
                return InvalidArgument(f"MCP server {self.name}: {message}", kind=INVALID_PARAMETERS)
            if message in _REFUSED and (refusal := self._diagnosis.refusal(self.name)) is not None:
                return type(refusal)(
                    self._redacted(refusal.message), kind=refusal.kind, retry_delay=refusal.retry_delay
                )
            # Servers use the code of a closed connection for errors of their own.
            is_lost = (error.code == CONNECTION_CLOSED and message == _CLOSED) or message == _TERMINATED
            if not is_lost:
                return UnknownFailure(f"MCP server {self.name}: {message}", kind=TOOL_CRASH)
        if isinstance(error, TimeoutError):
            return DeadlineExceeded(f"MCP server {self.name} does not answer in time", kind=TOOL_TIMEOUT)
        if isinstance(error, (RuntimeError, ValueError)):  # results that contradict the schema of the server
            return UnknownFailure(f"MCP server {self.name}: {message}", kind=TOOL_CRASH)
        return Unavailable(f"MCP server {self.name}{self._address} is not reachable: {message}", kind=TOOL_NETWORK)


class _Noticing:
    """A transport that tells when its read side ends: a server may die while nothing is asked of it. It mends incoming
    messages."""

    def __init__(self, server: str, streams: Any, ended: asyncio.Event) -> None:
        self._server = server
        self._streams = streams
        self._ended = ended

    async def __aenter__(self) -> Any:
        read, write = await self._streams.__aenter__()
        return _NoticingStream(self._server, read, self._ended), write

    async def __aexit__(self, *error: Any) -> bool | None:
        return bool(await self._streams.__aexit__(*error))


class _NoticingStream:
    def __init__(self, server: str, stream: Any, ended: asyncio.Event) -> None:
        self._server = server
        self._stream = stream
        self._ended = ended

    def _mended(self, received: Any) -> Any:
        result = getattr(getattr(received, "message", None), "result", None)
        if isinstance(result, dict):
            mend(self._server, result)
        return received

    async def receive(self) -> Any:
        try:
            return self._mended(await self._stream.receive())
        except Exception:
            self._ended.set()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _NoticingStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._mended(await self._stream.__anext__())
        except (StopAsyncIteration, Exception):
            self._ended.set()
            raise

    async def __aenter__(self) -> _NoticingStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return bool(await self._stream.__aexit__(*error))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def _first(*waits: Any) -> None:
    """Returns when the first of several waits ends; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
