"""`archon mcp`: a real client of the package `mcp` uses the tools of an agent, over pipes and HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ImageContent, TextContent

MODULE = '''
from archon_mesh.agent import Agent
from archon_mesh.tools import tool
from archon_mesh.tools.builtin import Calculator
from archon_mesh.tools.image import Image

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
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "office_tools.py").write_text(MODULE)
    (tmp_path / "office.yaml").write_text(
        "name: office\ndescription: An office.\ntools: [office_tools:record, office_tools:wipe]\n"
        "tool_policy: {allowed: [record, wipe]}\n"
    )
    return tmp_path


def command(*args: str) -> list[str]:
    return ["-c", "from archon_services.cli.main import main; main()", *args]


def over_pipes(folder: Path, source: str = "office_tools:agent") -> Client:
    parameters = StdioServerParameters(
        command=sys.executable, args=command("mcp", source), cwd=folder, env=dict(os.environ)
    )
    return Client(parameters, read_timeout_seconds=60)


@asynccontextmanager
async def over_http(folder: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command("mcp", "office_tools:agent", "--http", "0"),
        cwd=folder,
        env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        url = ""
        async with asyncio.timeout(60):
            while not url:
                line = (await process.stderr.readline()).decode()
                assert line or process.returncode is None, "the server ended"
                url = (re.findall(r"serving MCP on (http\S+)", line) or [""])[0]
        yield url, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


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


async def test_client_calls_the_tools_of_an_agent_over_http(folder: Path) -> None:
    async with over_http(folder) as (url, process):
        async with Client(url, read_timeout_seconds=60) as client:
            await check_tools(client)
        process.send_signal(signal.SIGINT)
        output, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 130
        assert output == b"printed by the module\nprinted by the tool\n"
        assert b"KeyboardInterrupt" not in errors


async def test_agent_of_a_file_offers_what_its_policy_allows(folder: Path) -> None:
    async with over_pipes(folder, "office.yaml") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"record", "wipe"}
        assert text(await client.call_tool("wipe", {})) == "wiped"


async def test_output_has_only_the_protocol_and_ends_with_the_input(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command("mcp", "office_tools:agent"),
        cwd=folder,
        env=dict(os.environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(b"this is no message\n"), 60)
    assert process.returncode == 0
    assert all(line.startswith(b'{"jsonrpc"') for line in output.splitlines())
    assert b"printed by the module" in errors


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_signal_ends_the_server_over_pipes(folder: Path, signum: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command("mcp", "office_tools:agent"),
        cwd=folder,
        env=dict(os.environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    await asyncio.wait_for(process.stdout.readline(), 60)
    process.send_signal(signum)
    assert await asyncio.wait_for(process.wait(), 60) == 130  # the input is still open
    assert b"Traceback" not in await process.stderr.read()


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}, {"Origin": "http://evil.example"}]
)
async def test_request_of_another_site_is_refused(folder: Path, headers: dict[str, str]) -> None:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    async with over_http(folder) as (url, _), httpx2.AsyncClient(trust_env=False) as client:
        response = await client.post(url, json=body, headers={**accept, **headers}, timeout=60)
        assert response.status_code in (403, 421)
        assert "record" not in response.text


@pytest.mark.parametrize("source", ["none.yaml", "office_tools:none", "none:agent", "office_tools", "os:sep"])
async def test_source_that_has_no_tools_is_a_usage_error(folder: Path, source: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command("mcp", source),
        cwd=folder,
        env=dict(os.environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode in (2, 4)
    assert output == b""
    assert errors.startswith((b"error: ", b"printed by the module\nerror: "))
