"""Sources of tools that are known only once they are connected, such as MCP servers."""

from __future__ import annotations

from typing import Protocol

from archon_mesh.tools.registry import ToolRegistry


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
