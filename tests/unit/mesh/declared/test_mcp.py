"""MCP servers in the file of an agent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.declared import load_agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools.mcp import McpToolSource
from tests.fixtures.agent_file import write_agent

SERVER = Path(__file__).parents[3] / "fixtures" / "plain_mcp_server.py"


async def test_tools_of_a_server_are_there_when_the_agent_runs(tmp_path: Path) -> None:
    text = f"mcp:\n  testing: {{command: {sys.executable}, args: [{SERVER}]}}\nexit_on_success: [testing.add]\n"
    agent = load_agent(write_agent(tmp_path, text), environment={}).agent
    await agent.connect_tools()
    try:
        assert "testing.add" in agent.tools.names
        result = await agent.engine.execute_tool_call("testing.add", {"a": 1, "b": 2})
        assert result.content == {"result": 3}
    finally:
        await agent.close()


@pytest.mark.parametrize(("key", "may_ask"), [("", False), (", may_ask: true", True)])
def test_server_may_ask_if_the_file_says_so(tmp_path: Path, key: str, may_ask: bool) -> None:
    agent = load_agent(write_agent(tmp_path, f"mcp:\n  a: {{command: x{key}}}\n"), environment={}).agent
    (source,) = agent.tool_sources
    assert isinstance(source, McpToolSource)
    assert source.may_ask is may_ask


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcp:\n  a: {}\n", "clerk.yaml:3: mcp.a: an MCP server has either a command or a url"),
        ("mcp:\n  a: {command: x, url: 'http://y'}\n", "either a command or a url"),
        ("mcp:\n  a: {command: x, headers: {b: c}}\n", "headers to a url"),
        ("mcp:\n  a: {command: x, comand: y}\n", "did you mean command"),
        ("mcp:\n  a-b: {command: x}\n", "clerk.yaml:3: mcp.a-b: invalid name 'a-b' of an MCP server"),
        ("mcp:\n  a: {url: 'ftp://x'}\n", "expected an http or https URL"),
        ("exit_on_success: [b.add]\nmcp:\n  a: {command: x}\n", "no tool 'b.add'"),
    ],
)
def test_mistake_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        load_agent(write_agent(tmp_path, text), environment={})
    assert message in str(raised.value)


def test_secret_of_a_variable_is_shown_nowhere(tmp_path: Path) -> None:
    text = "mcp:\n  a: {url: 'https://x.example', headers: {Authorization: '${TOKEN}'}, env: {A: '${TOKEN}'}}\n"
    with pytest.raises(InvalidArgument) as raised:
        load_agent(write_agent(tmp_path, text), environment={"TOKEN": "token-123456"})
    assert "token-123456" not in str(raised.value)


class Source:
    """A source that provides a tool, and notes what is asked of it."""

    name = "noted"

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def connect(self) -> None:
        self.calls.append("connect")

    def register(self, registry: object) -> None:
        self.calls.append("register")

    async def close(self) -> None:
        self.calls.append("close")


async def test_sources_are_connected_by_a_run_closed_by_the_agent() -> None:
    source = Source()
    async with Agent("a", model=ScriptedModel(["one", "two"]), tool_sources=[source]) as agent:
        assert source.calls == []
        await agent.run_async("hello")
        await agent.run_async("again")
        assert source.calls == ["connect", "register"] * 2
    assert source.calls[-1] == "close"
