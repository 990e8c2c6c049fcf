"""`archon mcp`: a real client of the package `mcp` uses the tools of an agent, over pipes and HTTP."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from tests.fixtures.fork_server import ForkServer
from tests.fixtures.programs import Program, program
from tests.fixtures.variants import one_in
from tests.fixtures.waiting import until

MODULE = '''
from archon_mesh.agent import Agent
from archon_mesh.tools import ask_person, tool
from archon_mesh.tools.builtin import Calculator
from archon_mesh.tools.image import Image
from archon_mesh.tools.mcp import McpOffer, ResourceFolder, prompt, report_progress

print("printed by the module")

@tool
def record(title: str, pages: int = 1) -> dict:
    """Makes a record."""
    print("printed by the tool")
    return {"title": title, "pages": pages}

@tool
def picture() -> Image:
    """Draws."""
    return Image(b"png", "image/png")

@tool(dangerous=True)
def wipe() -> str:
    """Deletes everything."""
    return "wiped"

@tool
def hidden() -> str:
    """Is denied."""
    return "shown"

@tool
def fail() -> str:
    """Fails."""
    raise ValueError("no paper")

@tool
def stateful(agent_state: object) -> str:
    """Needs the state of an agent."""
    return "state"

agent = Agent(
    "office",
    description="An office.",
    tools=[record, picture, wipe, hidden, fail, stateful, Calculator()],
    tool_policy={"denied": ["hidden"]},
)

@prompt
def review(text: str) -> str:
    """Reviews a text."""
    return f"Review: {text}"

offer = McpOffer(agent, resources=[ResourceFolder("docs://", "documents")], prompts=[review])
without_agent = McpOffer([record], prompts=[review])

@tool
async def reserve(room: str) -> str:
    """Reserves a room."""
    days = await ask_person("For how many days?")
    await report_progress(1, 1)
    removed.remove(review)
    return f"{room} for {days.text} days"

removed = McpOffer([reserve], prompts=[review])
'''

IMPORTED = (
    *("archon_services.cli.main", "archon_services.cli.commands.mcp", "archon_mesh.agent", "archon_mesh.declared"),
    *("archon_mesh.tools.builtin",),
    *("archon_mesh.tools.mcp.serving.server", "mcp.server.stdio", "mcp.server.streamable_http_manager", "uvicorn"),
)
MAIN = "from archon_services.cli.main import main; main()"


class Start(Protocol):
    """Starts `archon mcp ARGUMENTS`."""

    def __call__(self, *arguments: str, piped: bool = False) -> AbstractAsyncContextManager[Program]: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "office_tools.py").write_text(MODULE)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "guide.md").write_text("# Guide")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "office.yaml").write_text(
        "name: office\ndescription: An office.\ntools: [office_tools:record, office_tools:wipe]\n"
        "tool_policy: {allowed: [record, wipe]}\n"
    )
    return tmp_path


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """A fork server with the package `mcp`, which takes longer to import than all else."""
    server = ForkServer(IMPORTED)
    yield server
    server.close()


@pytest.fixture
def started(folder: Path, forks: ForkServer) -> Start:
    """Starts `archon mcp ARGUMENTS` as a fork in the folder."""

    def start(*arguments: str, piped: bool = False) -> AbstractAsyncContextManager[Program]:
        out, err = folder / "out", folder / "err"
        command = ["-c", MAIN, "mcp", *arguments]
        return program(command, os.environ, out, err, folder=folder, piped=piped, server=forks)

    return start


def over_pipes(folder: Path, source: str = "office_tools:agent", **fields: Any) -> Client:
    """A client that starts the server by its command."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-c", MAIN, "mcp", source], cwd=folder, env=dict(os.environ)
    )
    return Client(parameters, read_timeout_seconds=60, **fields)


@asynccontextmanager
async def over_http(started: Start, source: str = "office_tools:agent") -> AsyncIterator[tuple[str, Program]]:
    async with started(source, "--http", "0") as process:
        urls: list[str] = []

        def serves() -> bool:
            urls[:] = re.findall(r"serving MCP on (http\S+)\s", process.errors)
            return urls != [] or process.returncode is not None

        await until(serves, 60)
        assert process.returncode is None, "the server ended"
        yield urls[0], process


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def check_tools(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"record", "picture", "fail", "calculator"}, "neither denied, dangerous, nor stateful ones"
    assert tools["record"].description == "Makes a record."
    assert tools["record"].input_schema["required"] == ["title"]
    answer = await client.call_tool("record", {"title": "sea"})
    assert answer.structured_content == {"title": "sea", "pages": 1}
    assert text(answer) == '{"title": "sea", "pages": 1}'
    assert text(await client.call_tool("calculator", {"expression": "2+2"})) == "4"
    (image,) = (await client.call_tool("picture", {})).content
    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"
    for name, arguments, message in (
        ("record", {"pages": "many"}, "invalid arguments for tool record"),
        ("fail", {}, "ValueError: no paper"),
        ("wipe", {}, "no tool 'wipe'"),
        ("hidden", {}, "no tool 'hidden'"),
    ):
        failed = await client.call_tool(name, arguments)
        assert failed.is_error
        assert message in text(failed)


async def test_client_calls_the_tools_of_an_agent_over_pipes(folder: Path) -> None:
    async with over_pipes(folder) as client:
        await check_tools(client)


async def test_client_calls_the_tools_of_an_agent_over_http(started: Start) -> None:
    async with over_http(started) as (url, process):
        async with Client(url, read_timeout_seconds=60) as client:
            await check_tools(client)
        process.send_signal(signal.SIGINT)
        assert await process.wait(60) == 130
        assert process.out.read_text() == "printed by the module\nprinted by the tool\n"
        assert "KeyboardInterrupt" not in process.errors


async def test_agent_of_a_file_offers_what_its_policy_allows(started: Start) -> None:
    async with over_http(started, "office.yaml") as (url, _), Client(url, read_timeout_seconds=60) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"record", "wipe"}
        assert text(await client.call_tool("wipe", {})) == "wiped"


async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"answer": "2"})


async def check_reports(client: Client, *, listens: bool) -> None:
    reports: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async with AsyncExitStack() as stack:
        subscription = await stack.enter_async_context(client.listen(prompts_list_changed=True)) if listens else None
        result = await client.call_tool("reserve", {"room": "blue"}, progress_callback=note)
        assert text(result) == "blue for 2 days"
        assert reports == [1]
        if subscription is not None:
            assert await anext(aiter(subscription)) == PromptsListChanged()
        assert (await client.list_prompts()).prompts == []


@pytest.mark.parametrize("mode", one_in(2, ["auto", "legacy"]))
async def test_tool_reports_and_asks_over_pipes(folder: Path, mode: str) -> None:
    async with over_pipes(folder, "office_tools:removed", mode=mode, elicitation_callback=answer) as client:
        await check_reports(client, listens=mode == "auto")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tool_reports_and_asks_over_http(started: Start, mode: Any) -> None:
    async with (
        over_http(started, "office_tools:removed") as (url, _),
        Client(url, mode=mode, read_timeout_seconds=60, elicitation_callback=answer) as client,
    ):
        await check_reports(client, listens=mode == "auto")


async def test_signal_ends_the_server_while_a_client_listens(started: Start) -> None:
    async with (
        over_http(started, "office_tools:removed") as (url, process),
        Client(url, read_timeout_seconds=60) as client,
        client.listen(prompts_list_changed=True),
    ):
        process.send_signal(signal.SIGINT)
        assert await process.wait(60) == 130
        assert "Traceback" not in process.errors


async def test_offer_has_resources_and_prompts_beside_tools(started: Start) -> None:
    async with over_http(started, "office_tools:offer") as (url, _), Client(url, read_timeout_seconds=60) as client:
        await check_tools(client)
        (contents,) = (await client.read_resource("docs://guide.md")).contents
        assert contents == TextResourceContents(uri="docs://guide.md", mime_type="text/markdown", text="# Guide")
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("docs://../secret.txt")
        (message,) = (await client.get_prompt("review", {"text": "a text"})).messages
        assert message.content == TextContent(text="Review: a text")


async def test_offer_of_a_list_of_tools_needs_no_agent(started: Start) -> None:
    source = "office_tools:without_agent"
    async with over_http(started, source) as (url, _), Client(url, read_timeout_seconds=60) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["record"]
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["review"]


async def test_output_has_only_the_protocol_and_ends_with_the_input(started: Start) -> None:
    async with started("office_tools:agent", piped=True) as process:
        process.write(b"this is no message\n")
        process.close_input()
        assert await process.wait(60) == 0
        assert all(line.startswith('{"jsonrpc"') for line in process.out.read_text().splitlines())
        assert "printed by the module" in process.errors


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_signal_ends_the_server_over_pipes(started: Start, signum: signal.Signals) -> None:
    async with started("office_tools:agent", piped=True) as process:
        process.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        await until(lambda: "\n" in process.out.read_text(), 60)
        process.send_signal(signum)
        assert await process.wait(60) == 130  # the input is still open
        assert "Traceback" not in process.errors


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}, {"Origin": "http://evil.example"}]
)
async def test_request_of_another_site_is_refused(started: Start, headers: dict[str, str]) -> None:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    async with over_http(started) as (url, _), httpx2.AsyncClient(trust_env=False) as client:
        response = await client.post(url, json=body, headers={**accept, **headers}, timeout=60)
        assert response.status_code in (403, 421)
        assert "record" not in response.text


@pytest.mark.parametrize(
    "source", one_in(5, ["none.yaml", "office_tools:none", "none:agent", "office_tools", "os:sep"])
)
async def test_source_that_has_no_tools_is_a_usage_error(started: Start, source: str) -> None:
    async with started(source) as process:
        assert await process.wait(60) in (2, 4)
        assert process.out.read_text() == ""
        assert process.errors.startswith(("error: ", "printed by the module\nerror: "))
