"""MCP for the mesh: every role, the mesh itself and the tools that agents share are tools of one MCP server.

A call of a role is a run, and so is a task of the protocol: the room keeps nothing of it, so that any replica answers.
It needs the optional package `archon-mesh[mcp]`.
"""
