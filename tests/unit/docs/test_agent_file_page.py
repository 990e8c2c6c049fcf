"""docs/reference/agent-file.md is what the schema gives, and its example loads and has every key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from archon_mesh.declared import DeclaredAgent, load_agent
from archon_mesh.declared.schema import KEYS
from tests.unit.docs import agent_file_page


@pytest.fixture
def example() -> Iterator[DeclaredAgent]:
    yield load_agent(agent_file_page.EXAMPLE, environment={})
    sys.modules.pop("librarian_tools", None)


def keys_of(value: Any) -> set[str]:
    """Returns the keys of all mappings in a value, however deep."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_the_page_is_what_the_schema_gives() -> None:
    assert agent_file_page.PAGE.read_text() == agent_file_page.page(), "run: python -m tests.unit.docs.agent_file_page"


def test_each_key_has_a_meaning() -> None:
    for part in agent_file_page.PARTS.values():
        for key, field in agent_file_page.keys(part).items():
            assert field.description, f"{part.__name__}.{key}"


def test_each_key_of_the_schema_is_on_the_page() -> None:
    listed = {key for part in agent_file_page.PARTS.values() for key in agent_file_page.keys(part)}
    assert listed == set(KEYS)


def test_the_examples_have_every_key() -> None:
    paths = agent_file_page.EXAMPLE, agent_file_page.MCP_EXAMPLE, agent_file_page.ARBITER_EXAMPLE
    examples = [yaml.safe_load(path.read_text()) for path in paths]
    assert set(KEYS) <= keys_of(examples)


def test_the_example_of_mcp_servers_loads_and_is_on_their_page() -> None:
    agent = load_agent(agent_file_page.MCP_EXAMPLE, environment={}).agent
    assert [source.name for source in agent.tool_sources] == ["files", "tickets"]
    page = agent_file_page.PAGE.parents[1] / "mcp.md"
    assert f"```yaml\n{agent_file_page.MCP_EXAMPLE.read_text()}```" in page.read_text()


def test_the_example_of_an_arbiter_loads() -> None:
    arbiter = load_agent(agent_file_page.ARBITER_EXAMPLE, environment={}).role.arbiter
    assert arbiter is not None
    assert (list(arbiter.ways), arbiter.by) == (["method", "verify", "person", "model"], "answer")


async def test_the_example_loads_and_its_tools_answer(example: DeclaredAgent) -> None:
    assert set(example.agent.sub_agents) == {"archivist", "critic", "designer"}
    assert example.role.stateful
    engine = example.agent.engine
    assert (
        "The Lighthouse: 2 copies are in."
        in (await engine.execute_tool_call("find_book", {"title": "The Lighthouse"})).text
    )
    assert "The Lighthouse\nA Garden Bench" in (await engine.execute_tool_call("catalogue")).text
