"""`archon mcp`: offers the tools of an agent, resources and prompts by the Model Context Protocol."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.interrupts import Signals, exit_code

if TYPE_CHECKING:
    from mcp.server import Server

    from archon_mesh.agent import Agent
    from archon_mesh.tools.mcp import McpOffer

CANCEL_SECONDS: Final = 2.0
"""Seconds that calls have to end after a signal."""


def mcp(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_MODULE",
            help="The YAML file that declares the agent, or MODULE:NAME of an Agent, tools, or an McpOffer.",
        ),
    ],
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve streamable HTTP on 127.0.0.1 instead of standard input and output; 0 for any free port.",
        ),
    ] = None,
) -> None:
    """Offer the tools of an agent, resources and prompts as an MCP server, with the agent's tool policy.

    By default over standard input and output, for clients that start the command themselves; logs go to standard
    error.
    """
    from archon.errors import ArchonError
    from archon_mesh.tools.mcp import check_installed

    try:
        check_installed()
        with _protocol_only(is_stdio=http is None):
            agent, offer = _loaded(source)
        signum = asyncio.run(_serve(agent, offer, http))
    except ArchonError as error:
        raise CliError(str(error)) from None
    except OSError as error:
        raise CliError(f"cannot serve on port {http}: {error.strerror}") from None
    if signum is not None:
        raise typer.Exit(exit_code(signum))


async def _serve(agent: Agent, offer: McpOffer | None, port: int | None) -> signal.Signals | None:
    """Serves until the input ends, or a signal comes, which is returned."""
    from archon_mesh.tools.mcp.serving.server import create_server

    async with _connected(agent):
        server = create_server(agent.name, agent.engine, instructions=agent.description, offer=offer)
        signum = await (_serve_stdio(server) if port is None else _serve_http(server, port))
    if signum is not None and port is None:
        sys.stderr.flush()
        os._exit(exit_code(signum))  # nothing ends the thread that waits for input; all else is closed
    return signum


async def _serve_http(server: Server[Any], port: int) -> signal.Signals | None:
    from archon_mesh.tools.mcp.serving.server import serve_http

    def started(url: str) -> None:
        print(f"serving MCP on {url}", file=sys.stderr, flush=True)

    stopping = asyncio.Event()
    with Signals() as signals:
        task = asyncio.create_task(serve_http(server, port, started, stopping), name="serve MCP")
        signum = await signals.race(task)
        stopping.set()
        await task
    return signum


async def _serve_stdio(server: Server[Any]) -> signal.Signals | None:
    """Serves until the input ends, or a signal comes, which cancels the calls and is returned."""
    from archon_mesh.tools.mcp.serving.server import serve_stdio

    task = asyncio.create_task(serve_stdio(server), name="serve MCP")
    with Signals() as signals:
        signum = await signals.race(task)
    if signum is None:
        task.result()
        return None
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    return signum


@asynccontextmanager
async def _connected(agent: Agent) -> AsyncIterator[None]:
    try:
        await agent.connect_tools()
        yield
    finally:
        await agent.close()


def _loaded(source: str) -> tuple[Agent, McpOffer | None]:
    """Returns the agent whose tools are offered, and its further offers."""
    from archon.errors import InvalidArgument, NotFound
    from archon_mesh.agent import Agent
    from archon_mesh.declared import load_agent
    from archon_mesh.tools.mcp import McpOffer

    if Path(source).suffix in (".yaml", ".yml"):
        try:
            return load_agent(source).agent, None
        except (NotFound, InvalidArgument) as error:
            raise CliError(str(error), code=USAGE) from None
    found = _imported(source)
    offer = found if isinstance(found, McpOffer) else None
    tools = found.tools if isinstance(found, McpOffer) else found
    if isinstance(tools, Agent):
        return tools, offer
    listed = tools if isinstance(tools, (list, tuple)) else [tools]
    try:
        return Agent(source.partition(":")[2].replace(".", "_"), tools=listed), offer
    except InvalidArgument as error:
        raise CliError(f"{source} is neither an Agent nor tools: {error}", code=USAGE) from None


def _imported(source: str) -> Any:
    module, _, name = source.partition(":")
    if not module or not name or "/" in source:
        raise CliError(f"cannot read {source}: expected a YAML file, or MODULE:NAME", code=USAGE)
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for attribute in name.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise CliError(f"cannot import {source}: {error}", code=USAGE) from None
    return found


@contextmanager
def _protocol_only(*, is_stdio: bool) -> Iterator[None]:
    """While the agent is loaded, its modules print to standard error: the output is the protocol's."""
    if not is_stdio:
        yield
        return
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(wire, 1)
        os.close(wire)
