"""Shared and remote tools in the file of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.declared import load_agent
from archon_mesh.node import agent_server
from archon_mesh.tools.remote import RemoteTool
from tests.fixtures.agent_file import write_agent


def test_remote_tools_are_sources_of_the_agent(tmp_path: Path) -> None:
    text = (
        "remote_tools:\n  - calculator\n  - coder/run_code\n"
        "  - {name: files.read, role: archive, namespace: old, timeout: 5, trusted: true}\n"
        "exit_on_success: [calculator, old.files.read]\n"
    )
    agent = load_agent(write_agent(tmp_path, text), environment={"ARCHON_REGISTRY": "127.0.0.1:1"}).agent
    tools = [tool for tool in agent.tool_sources if isinstance(tool, RemoteTool)]
    assert [tool.full_name for tool in tools] == ["calculator", "run_code", "old.files.read"]
    assert tools[2].timeout == 6.0
    assert not agent.tools.names, "their descriptions are not known before a run"


def test_shared_tools_are_shared_when_the_file_is_served(tmp_path: Path) -> None:
    text = 'shared_tools: [calculator]\ntools:\n  - {import: "archon_mesh.tools.builtin:Calculator", params: {}}\n'
    declared = load_agent(write_agent(tmp_path, text), environment={})
    server = agent_server(declared.role, declared.agent)
    assert [tool.name for tool in server.shared_tools.tools] == ["calculator"]


@pytest.mark.parametrize(
    ("text", "field", "why"),
    [
        ("shared_tools: [nothing]\n", "shared_tools", "no such tool"),
        ("remote_tools: [x]\nshared_tools: [x]\n", "shared_tools", "cannot be shared further"),
        ("remote_tools: ['a/b', 'c/b']\n", "tools", "two tools have the name 'b'"),
        ("remote_tools: [{name: a/b, role: c}]\n", "remote_tools.0", "named twice"),
        ("remote_tools: ['A B/c']\n", "remote_tools.0", "expected TOOL or ROLE/TOOL"),
        ("remote_tools: [{name: a, namespace: 1x}]\n", "remote_tools.0.namespace", ""),
        ("remote_tools: [{name: a, timeout: 0}]\n", "remote_tools.0.timeout", ""),
    ],
)
def test_a_mistake_names_its_key(tmp_path: Path, text: str, field: str, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load_agent(write_agent(tmp_path, text), environment={})
    assert caught.value.field_violations[0].field == field
    assert why in str(caught.value)
