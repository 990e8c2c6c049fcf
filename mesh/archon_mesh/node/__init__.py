"""A role, played by a model, behind an AgentServer."""

from archon_mesh.node.coordinate import coordinate_with
from archon_mesh.node.handler import answer_with, messages_for
from archon_mesh.node.role import Role
from archon_mesh.node.serve import agent_server, serve

__all__ = ["Role", "agent_server", "answer_with", "coordinate_with", "messages_for", "serve"]
