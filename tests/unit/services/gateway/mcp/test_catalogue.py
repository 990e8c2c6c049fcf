"""The tools, arguments and pages of the MCP server of a mesh."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError

from archon.errors import InvalidArgument
from archon.registry import Tool, ToolShare
from archon_services.gateway.agents import MeshAgent
from archon_services.gateway.mcp.catalogue import MAX_DESCRIPTION, MAX_NAME, MAX_SCHEMA, Catalogue, tool_name
from archon_services.gateway.mcp.inputs import MAX_FILES, goal_of, goal_schema, session_of
from archon_services.gateway.mcp.lists import PAGE, page_of


def mesh(*tools: Tool, role: str = "clerk") -> MeshAgent:
    return MeshAgent("", roles=(MeshAgent(role, "d" * 10_000, shared_tools=tools),))


def test_names_and_descriptions_of_tools_are_bounded() -> None:
    schema = json.dumps({"type": "object", "properties": {"x" * MAX_SCHEMA: {}}})
    shared = Tool("old.read" * 20, "d" * 10_000, schema, share=ToolShare())
    tools = {tool.name: tool for tool in Catalogue(mesh(shared)).tools}
    (name,) = set(tools) - {"clerk", "mesh_run", "run_get"}
    assert len(name) == MAX_NAME and "." not in name
    assert tools[name].listed.input_schema == {"type": "object", "properties": {}}
    assert all(len(tool.listed.description or "") <= MAX_DESCRIPTION for tool in tools.values())


def test_names_of_shared_tools_are_unique() -> None:
    names = {
        tool_name("a", "old.read"),
        tool_name("a", "old-read"),
        tool_name("a", "old read"),
        tool_name("a-old", "read"),
    }
    assert len(names) == 4


def test_a_name_that_is_like_one_tool_alone_counts() -> None:
    found = Catalogue(mesh(Tool("count_words", share=ToolShare()), role="word-clerk"))
    assert found.find("word_clerk") is found.find("word-clerk") is not None
    assert found.find("count_words") is found.find("word-clerk__count_words") is not None
    both = MeshAgent("", roles=tuple(MeshAgent(role, shared_tools=(Tool("t", share=ToolShare()),)) for role in "ab"))
    assert Catalogue(both).find("t") is None
    assert Catalogue(MeshAgent("")).find("mesh_run") is None, "a mesh without roles chooses none"


def test_a_changed_tool_changes_the_digest_of_the_list() -> None:
    first = Catalogue(mesh(Tool("t", share=ToolShare())))
    same = Catalogue(mesh(Tool("t", share=ToolShare(calls=7))))
    other = Catalogue(mesh(Tool("t", "does more", share=ToolShare())))
    assert first.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "goal is missing"),
        ({"goal": 5}, "a text"),
        ({"goal": "x", "files": [{}]}, "either data"),
        ({"goal": "x", "files": [{"data": "!"}]}, "not base64"),
        ({"goal": "x", "files": [{"data": "", "url": "u"}]}, "either data"),
        ({"goal": "x", "files": [{"url": "u"}] * (MAX_FILES + 1)}, "at most"),
        ({"goal": "x", "colour": 1}, "unknown argument 'colour'"),
    ],
)
def test_wrong_arguments_of_a_role_are_named(arguments: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidArgument, match=fault):
        goal_of("", arguments)


def test_a_goal_has_the_values_of_the_template_and_the_files() -> None:
    schema = goal_schema("books on {topic}, {topic} and {session}")
    assert schema["required"] == [] and list(schema["properties"]) == ["goal", "topic", "files", "session"]
    file = {"name": "../a/b.png", "media_type": "image/png", "data": "AAA="}
    text, picture = goal_of("books on {topic}", {"topic": "tea", "files": [file]})
    assert (text.text, picture.filename, picture.raw) == ("books on tea", "b.png", b"\0\0")
    assert goal_of("books on {topic}", {"goal": "{topic}", "topic": "tea"})[0].text == "{topic}"
    with pytest.raises(InvalidArgument):
        session_of({"session": "s" * 1_000})


def test_pages_neither_repeat_nor_leave_out_entries() -> None:
    names = [f"{number:04}" for number in range(2 * PAGE + 1)]
    first, cursor = page_of(names, None, str)
    names.remove("0000")
    second, further = page_of(names, cursor, str)
    third, end = page_of(names, further, str)
    assert [*first, *second, *third] == ["0000", *names] and end is None
    with pytest.raises(MCPError, match="cursor"):
        page_of(names, "x", str)
