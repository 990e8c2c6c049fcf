"""The tools of MCP servers in the registration of a role that is served."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archon.registry import RegistryClient
from archon_mesh.declared import load_agent
from archon_mesh.llm import ScriptedModel
from archon_services.agents.app import agent_app
from archon_services.agents.settings import AgentServiceSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.waiting import eventually

SERVER = Path(__file__).parents[3] / "fixtures" / "mcp_server.py"
LOCAL: dict[str, Any] = {"host": "127.0.0.1", "port": 0}


@pytest.fixture
async def registry() -> AsyncIterator[str]:
    async with registry_app(RegistrySettings(etcd="memory", **LOCAL)) as address:
        yield address


async def registered_tools(registry: str, folder: Path, mcp: str) -> set[str]:
    """Serves an agent with this MCP server; returns the names of the tools that it registers."""
    path = folder / "clerk.yaml"
    path.write_text(f"name: clerk\nsystem_prompt: You are a clerk.\nmcp:\n  testing: {mcp}\n")
    declared = load_agent(path, model=ScriptedModel([]), environment={})
    settings = AgentServiceSettings(registry=registry, drain=0.0, **LOCAL)
    async with agent_app(declared.role, declared.agent, settings), RegistryClient(registry) as client:

        async def listed() -> bool:
            return bool(await client.list_instances())

        await eventually(listed, 20)
        (instance,) = await client.list_instances()
        return {tool.name for tool in instance.tools}


async def test_a_served_role_registers_the_tools_of_its_servers(registry: str, tmp_path: Path) -> None:
    names = await registered_tools(registry, tmp_path, f"{{command: {sys.executable}, args: [{SERVER}]}}")
    assert "testing.add" in names


async def test_a_role_whose_server_is_down_serves_without_its_tools(
    registry: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await registered_tools(registry, tmp_path, f"{{command: {tmp_path / 'missing'}}}") == set()
    assert "not all tools of clerk are registered: " in caplog.text
