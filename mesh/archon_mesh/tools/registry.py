"""A registry of tools by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from archon.errors import AlreadyExists, InvalidArgument, NotFound
from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.tool import Tool


class ToolRegistry:
    """Tools by name, in order of registration. Plain functions can be registered too."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        for tool in tools:
            self.register_tool(tool)

    def register_tool(self, tool: Tool | Callable[..., Any]) -> Tool:
        """Registers a tool. Raises AlreadyExists if the name is taken, and InvalidArgument if it is not a tool."""
        registered = tool if isinstance(tool, Tool) else FunctionTool(tool) if callable(tool) else None
        if registered is None or not registered.name:
            raise InvalidArgument(f"not a tool: {tool!r}; derive from Tool, or decorate a function with @tool")
        if registered.name in self._tools:
            raise AlreadyExists(f"tool {registered.name!r} is already registered")
        self._tools[registered.name] = registered
        self._specs = None
        return registered

    def copy(self) -> ToolRegistry:
        """Returns an independent registry with the same tools."""
        copy = ToolRegistry()
        copy._tools, copy._specs = dict(self._tools), self._specs
        return copy

    def get_tool(self, name: str) -> Tool:
        """Returns a tool. Raises NotFound, which lists the registered names."""
        tool = self._tools.get(name)
        if tool is None:
            raise NotFound(f"no tool {name!r}; registered: {', '.join(self._tools) or 'none'}")
        return tool

    def list_tools(self) -> list[Tool]:
        """Returns the tools in order of registration."""
        return list(self._tools.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        if self._specs is None:
            self._specs = tuple(tool.spec for tool in self._tools.values())
        return self._specs

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)
