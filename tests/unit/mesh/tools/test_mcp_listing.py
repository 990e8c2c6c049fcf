"""The pages of tools that an MCP server lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mcp_types import Tool

from archon_mesh.tools.mcp import listing
from archon_mesh.tools.mcp.listing import list_tools


class Pages:
    """A client whose server has pages of tools; the cursor of a page is its number."""

    def __init__(self, *pages: list[str]) -> None:
        self._pages = pages
        self.asked: list[str | None] = []

    async def list_tools(self, *, cursor: str | None, cache_mode: str) -> Any:
        """Returns a page."""
        self.asked.append(cursor)
        number = int(cursor or 0)
        tools = [Tool(name=name, input_schema={"type": "object"}) for name in self._pages[number]]
        return SimpleNamespace(tools=tools, next_cursor=str(number + 1) if number + 1 < len(self._pages) else None)


async def names(client: Any) -> list[str]:
    return [each.name for each in await list_tools(client, "shop")]


async def test_the_tools_of_all_pages_are_found_each_name_once() -> None:
    client = Pages(["a", "b"], [], ["b", "c"])
    assert await names(client) == ["a", "b", "c"]
    assert client.asked == [None, "1", "2"]


async def test_a_page_without_a_cursor_is_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    client = Pages(["a"])
    assert await names(client) == ["a"]
    assert client.asked == [None]
    assert caplog.text == ""


async def test_tools_and_pages_beyond_the_limits_are_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listing, "MAX_PAGES", 2)
    assert await names(Pages(["a"], ["b"], ["c"])) == ["a", "b"]
    assert "more than 2 pages" in caplog.text
    monkeypatch.setattr(listing, "MAX_TOOLS", 2)
    assert await names(Pages(["a", "b", "c"])) == ["a", "b"]
    assert "more than 2 tools" in caplog.text
