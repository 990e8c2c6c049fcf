"""Sources of tools that are known only once they are connected, such as MCP servers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from archon_mesh.tools.registry import SEPARATOR, ToolRegistry
from archon_mesh.tools.tool import Tool


class ToolSource(Protocol):
    """Provides tools to registries while it is connected."""

    name: str

    async def connect(self) -> None:
        """Connects; does nothing if that is done. Raises Unavailable or DeadlineExceeded."""
        ...

    def register(self, registry: ToolRegistry) -> None:
        """Registers the tools, and keeps the registry as the tools change."""
        ...

    async def close(self) -> None:
        """Ends the connection. It can be connected again. Idempotent."""
        ...


class SourcedTool(Tool):
    """A tool that is its own source: its description is known only once it is connected. An agent that has it among its
    tools connects it at the start of each run, as a ToolSource."""

    namespace: str = ""

    @property
    def full_name(self) -> str:
        """The name of the tool with its namespace."""
        return f"{self.namespace}{SEPARATOR}{self.name}" if self.namespace else self.name

    @abstractmethod
    async def connect(self) -> None:
        """Gets the description of the tool, if it can be found."""

    @abstractmethod
    def register(self, registry: ToolRegistry) -> None:
        """Registers the tool, if its description is known."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the connection. Idempotent."""
