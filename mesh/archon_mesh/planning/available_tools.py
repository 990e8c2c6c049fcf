"""The tools that a plan may use, in any form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.tool import Tool

AvailableTools = ToolRegistry | Iterable[Tool | ToolSpec | Callable[..., Any] | str]
"""A registry, or tools, functions, specs, or names of tools."""


def specs_of(tools: AvailableTools) -> tuple[ToolSpec, ...]:
    """Returns the tools as a model sees them. Raises InvalidArgument for a value that is no tool."""
    if isinstance(tools, ToolRegistry):
        return tools.specs
    return tuple(_spec_of(tool) for tool in tools)


def _spec_of(tool: Tool | ToolSpec | Callable[..., Any] | str) -> ToolSpec:
    if isinstance(tool, ToolSpec):
        return tool
    if isinstance(tool, str):
        return ToolSpec(tool, "", {"type": "object"})
    return ToolRegistry([tool]).specs[0]
