"""A server of the Model Context Protocol: tools, through their engine with its permissions, limits and retries, and the
rest of the offer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from archon.errors import ArchonError
from archon.loopback import IPV6, loopback_host
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.errors import UnknownTool
from archon_mesh.tools.mcp.package import check_installed
from archon_mesh.tools.mcp.serving.changes import MAX_LISTENERS, Changes
from archon_mesh.tools.mcp.serving.client import MissingClientCapability
from archon_mesh.tools.mcp.serving.content import call_result
from archon_mesh.tools.mcp.serving.handlers import OfferHandlers, answered
from archon_mesh.tools.mcp.serving.offer import McpOffer
from archon_mesh.tools.registry import Registration
from archon_mesh.tools.result import ToolResult

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp_types import CallToolResult

MAX_CALLS: Final = 32
"""Calls of all clients at the same time; further ones wait."""

STOP_SECONDS: Final = 3
"""Seconds that HTTP requests have to end when the server stops."""

BACKLOG: Final = 128
"""Connections that wait to be accepted."""

PATH: Final = "/mcp"


def create_server(
    name: str, engine: ToolExecutionEngine, *, instructions: str = "", offer: McpOffer | None = None
) -> Server[Any]:
    """Returns an MCP server with the tools of an engine that its policy permits, and the resources and prompts of an
    offer. Tools that need the state of a calling agent, such as sub-agents, are not offered. Raises FailedPrecondition
    if the package `mcp` is not installed."""
    check_installed()
    import mcp_types as types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp.server.subscriptions import ListenHandler

    changes = Changes(offer or McpOffer(), engine.registry)
    slots = asyncio.Semaphore(MAX_CALLS)

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(each) for each in _offered(engine)])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> CallToolResult | types.InputRequiredResult:
        if not any(each.name == params.name for each in _offered(engine)):
            return call_result(engine.refused(params.name, _unknown(params.name)).result)

        async def call() -> CallToolResult:
            outcome = await engine.run(params.name, params.arguments or {})
            if isinstance(outcome.error, MissingClientCapability):
                raise outcome.error
            return call_result(outcome.result)

        async with slots:
            try:
                result: CallToolResult | types.InputRequiredResult = await answered(context, params, changes, call)
            except MissingClientCapability as error:
                return call_result(ToolResult.error(str(error)))
        return result

    async def set_level(context: ServerRequestContext[Any], params: types.SetLevelRequestParams) -> types.EmptyResult:
        changes.set_level(context, params.level)
        return types.EmptyResult()

    server: Server[Any] = Server(
        name,
        version=_version(),
        instructions=instructions or None,
        lifespan=lambda _: changes.watched(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(changes.bus, max_subscriptions=MAX_LISTENERS),
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    if offer is not None:
        OfferHandlers(offer, changes, slots).add_to(server)
    # The state that a client keeps between two rounds of a request is sealed: a client can neither read nor change it.
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name))
    return server


async def serve_stdio(server: Server[Any]) -> None:
    """Serves one client over standard input and output, until the input ends. Meanwhile, anything else written to
    standard output goes to standard error."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


async def serve_http(server: Server[Any], port: int, started: Callable[[str], None], stopping: asyncio.Event) -> None:
    """Serves clients by streamable HTTP on the loopback address until `stopping` is set; `started` gets the URL, to
    which clients can connect from then on.

    Requests with the Host or Origin of another machine are refused, as the specification asks for. Raises OSError if
    the port is taken.
    """
    import uvicorn

    host = loopback_host()
    family = socket.AF_INET6 if host == IPV6 else socket.AF_INET
    # asyncio sends small pieces at once (TCP_NODELAY) on sockets that name their protocol alone.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)  # who reads the URL may connect at once
        app = server.streamable_http_app(streamable_http_path=PATH, host=host.strip("[]"))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            lifespan="on",
            backlog=BACKLOG,
        )
        started(f"http://{host}:{listener.getsockname()[1]}{PATH}")

        class Http(uvicorn.Server):
            """Leaves signals to the caller."""

            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        http = Http(config)
        serving = asyncio.create_task(http.serve(sockets=[listener]), name="serve HTTP")
        waiting = asyncio.create_task(stopping.wait(), name="wait for the end")
        try:
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            _end_listening(server)
            http.should_exit = True
            await serving
        finally:
            waiting.cancel()
            serving.cancel()


def _end_listening(server: Server[Any]) -> None:
    """Ends the streams of clients that listen for changes, which would not end by themselves."""
    from mcp.server.subscriptions import ListenHandler

    entry = server.get_request_handler("subscriptions/listen")
    if entry is not None and isinstance(entry.handler, ListenHandler):
        entry.handler.close()


def _version() -> str:
    try:
        return version("archon-mesh")
    except PackageNotFoundError:
        return ""


def _offered(engine: ToolExecutionEngine) -> list[Registration]:
    return [each for each in engine.registry.registrations if not each.tool.wants_state and _is_permitted(engine, each)]


def _is_permitted(engine: ToolExecutionEngine, registration: Registration) -> bool:
    try:
        engine.check_permission(registration.name, registration.tool)
    except ArchonError:
        return False
    return True


def _unknown(name: str) -> ArchonError:
    return UnknownTool(name, ())  # lists no tool that the policy does not permit


def _listed(registration: Registration) -> Any:
    import mcp_types as types

    tool = registration.tool
    schema: Mapping[str, Any] = tool.parameters_schema
    hints = types.ToolAnnotations(destructive_hint=tool.dangerous, idempotent_hint=tool.idempotent)
    return types.Tool(
        name=registration.name,
        description=tool.description,
        input_schema={"type": "object", **schema},
        annotations=hints,
    )
