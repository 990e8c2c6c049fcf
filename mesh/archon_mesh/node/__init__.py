"""Agents as roles of the mesh, behind an AgentServer, and remote agents as sub-agents."""

from archon_mesh.node.arbiter.handler import arbiter_handler
from archon_mesh.node.arbiter.options import Arbitration
from archon_mesh.node.handler import agent_from_role, agent_handler, role_handler
from archon_mesh.node.remote_agent import RemoteAgent
from archon_mesh.node.role import Role
from archon_mesh.node.serve import agent_server, serve
from archon_mesh.node.task_hooks import get_task

__all__ = [
    "Arbitration",
    "RemoteAgent",
    "Role",
    "agent_from_role",
    "agent_handler",
    "agent_server",
    "arbiter_handler",
    "get_task",
    "role_handler",
    "serve",
]
