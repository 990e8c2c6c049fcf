"""The Model Context Protocol: tools of MCP servers for agents; tools, resources and prompts for MCP clients.

The package `mcp` is optional: `pip install 'archon-mesh[mcp]'`.
"""

from archon_mesh.tools.mcp.package import check_installed
from archon_mesh.tools.mcp.serving.client import (
    MissingClientCapability,
    ask_client,
    client_can,
    log_to_client,
    report_progress,
)
from archon_mesh.tools.mcp.serving.client_requests import (
    ClientRequest,
    CompletionRequest,
    FormAnswer,
    FormRequest,
    Root,
    RootsRequest,
)
from archon_mesh.tools.mcp.serving.folder import ResourceFolder
from archon_mesh.tools.mcp.serving.offer import McpOffer
from archon_mesh.tools.mcp.serving.prompts import Prompt, PromptMessage, prompt
from archon_mesh.tools.mcp.serving.resources import Resource, ResourceProvider, resource
from archon_mesh.tools.mcp.source import McpToolSource

__all__ = [
    "ClientRequest",
    "CompletionRequest",
    "FormAnswer",
    "FormRequest",
    "McpOffer",
    "McpToolSource",
    "MissingClientCapability",
    "Prompt",
    "PromptMessage",
    "Resource",
    "ResourceFolder",
    "ResourceProvider",
    "Root",
    "RootsRequest",
    "ask_client",
    "check_installed",
    "client_can",
    "log_to_client",
    "prompt",
    "report_progress",
    "resource",
]
