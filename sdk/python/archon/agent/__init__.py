"""Serve a role as a member of the mesh."""

from archon.agent.server import AgentServer
from archon.agent.settings import AgentSettings
from archon.agent.task import TaskContext
from archon.agent.values import (
    Answer,
    ContextItem,
    Delegated,
    DelegationTarget,
    HistoryMessage,
    Item,
    Question,
    TaskRejected,
)

__all__ = [
    "AgentServer",
    "AgentSettings",
    "Answer",
    "ContextItem",
    "Delegated",
    "DelegationTarget",
    "HistoryMessage",
    "Item",
    "Question",
    "TaskContext",
    "TaskRejected",
]
