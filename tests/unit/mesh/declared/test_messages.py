"""Tools of messages that a file gives to an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.declared import load_agent
from archon_mesh.tools.messages import ReadMessagesTool
from tests.fixtures.agent_file import write_agent


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("messages: true\n", ("broadcast",)),
        ("messages: []\n", ()),
        ("messages: [broadcast, 'type:status_update']\n", ("broadcast", "type:status_update")),
    ],
)
def test_a_file_gives_an_agent_the_tools(tmp_path: Path, text: str, topics: tuple[str, ...]) -> None:
    agent = load_agent(write_agent(tmp_path, text), environment={}).agent
    assert agent.tools.names == ["send_message", "request_help", "read_messages", "reply"]
    tool = agent.tools.get_tool("read_messages")
    assert isinstance(tool, ReadMessagesTool)
    assert tool.topics == topics


def test_an_agent_has_no_messages_by_default(tmp_path: Path) -> None:
    assert not load_agent(write_agent(tmp_path, "messages: false\n"), environment={}).agent.tools.names
    assert not load_agent(write_agent(tmp_path, ""), environment={}).agent.tools.names


@pytest.mark.parametrize("text", ["messages: [news]\n", "messages: ['type:news']\n", "messages: all\n"])
def test_a_topic_that_does_not_exist_is_a_mistake(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArgument, match="messages"):
        load_agent(write_agent(tmp_path, text), environment={})
