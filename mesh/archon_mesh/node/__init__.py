"""An agent of the runtime as a role of the mesh, behind an AgentServer; and roles of the mesh as its sub-agents."""

from archon_mesh.node.handler import agent_of, answer_with, play
from archon_mesh.node.remote_agent import mesh_role
from archon_mesh.node.role import Role
from archon_mesh.node.serve import agent_server, serve
from archon_mesh.node.task_hooks import get_task

__all__ = ["Role", "agent_of", "agent_server", "answer_with", "get_task", "mesh_role", "play", "serve"]
