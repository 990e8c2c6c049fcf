"""The Model Context Protocol: tools of MCP servers for agents, and tools of agents for MCP clients.

The package `mcp` is optional: `pip install 'archon-mesh[mcp]'`.
"""

from archon_mesh.tools.mcp.package import check_installed
from archon_mesh.tools.mcp.source import McpToolSource

__all__ = ["McpToolSource", "check_installed"]
