"""Tools of other agents of the mesh: leased, and executed where they live."""

from archon_mesh.tools.remote.remote_tool import RemoteTool

__all__ = ["RemoteTool"]
