"""The tools that an agent registers."""

from __future__ import annotations

from typing import Any

import pytest

from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Role
from archon_mesh.node.serve import agent_server
from archon_mesh.tools import tool


@tool
def look() -> str:
    """Looks."""
    return "seen"


@tool
def buy() -> str:
    """Buys."""
    return "bought"


@tool(dangerous=True)
def burn() -> str:
    """Burns."""
    return "burnt"


@pytest.mark.parametrize(
    ("policy", "registered"),
    [
        (None, ["buy", "look"]),
        ({"denied": ["b*"]}, ["look"]),
        ({"allowed": ["burn", "look"]}, ["burn", "look"]),
        ({"allowed": ["look"], "sessions": {"s1": {"allowed": ["buy"]}}}, ["buy", "look"]),
        ({"denied": ["*"]}, []),
        ({"at_most": {"look": 1}}, ["buy", "look"]),
    ],
)
def test_a_tool_that_its_agent_may_never_call_is_not_registered(policy: Any, registered: list[str]) -> None:
    agent = Agent("clerk", model=ScriptedModel(), tools=[look, buy, burn], tool_policy=policy)
    server = agent_server(Role("clerk", "You look."), agent)
    assert sorted(each.name for each in server.registration.tools) == registered
