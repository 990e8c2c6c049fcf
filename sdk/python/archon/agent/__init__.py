"""Be a member of the mesh: serve one role."""

from archon.agent.server import AgentServer
from archon.agent.task import Answer, ContextItem, TaskContext, TaskRejected

__all__ = ["AgentServer", "Answer", "ContextItem", "TaskContext", "TaskRejected"]
