"""Be a member of the mesh: serve one role."""

from archon.agent.server import AgentServer
from archon.agent.settings import AgentSettings
from archon.agent.task import Answer, ContextItem, TaskContext, TaskRejected

__all__ = ["AgentServer", "AgentSettings", "Answer", "ContextItem", "TaskContext", "TaskRejected"]
