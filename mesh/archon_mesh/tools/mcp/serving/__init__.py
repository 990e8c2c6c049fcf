"""The side of a server: tools, resources and prompts for MCP clients."""
