"""Tools by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from archon.errors import AlreadyExists, InvalidArgument, NotFound
from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.tool import Tool


class ToolRegistry:
    """Keeps the order of registration. Functions may be registered as they are."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        for one in tools:
            self.register_tool(one)

    def register_tool(self, tool: Tool | Callable[..., Any]) -> Tool:
        """Raises AlreadyExists for a second tool of one name, InvalidArgument for what is no tool."""
        made = tool if isinstance(tool, Tool) else FunctionTool(tool) if callable(tool) else None
        if made is None or not made.name:
            raise InvalidArgument(f"{tool!r} is no tool: derive from Tool, or decorate a function with @tool")
        if made.name in self._tools:
            raise AlreadyExists(f"there is a tool {made.name!r} already")
        self._tools[made.name] = made
        self._specs = None
        return made

    def copy(self) -> ToolRegistry:
        """Another one of the same tools."""
        twin = ToolRegistry()
        twin._tools, twin._specs = dict(self._tools), self._specs
        return twin

    def get_tool(self, name: str) -> Tool:
        """Raises NotFound, which lists the names that there are."""
        found = self._tools.get(name)
        if found is None:
            raise NotFound(f"there is no tool {name!r}; known are: {', '.join(self._tools) or 'none'}")
        return found

    def list_tools(self) -> list[Tool]:
        """In the order in which they were registered."""
        return list(self._tools.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """As a model sees them."""
        if self._specs is None:
            self._specs = tuple(one.spec for one in self._tools.values())
        return self._specs

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)
