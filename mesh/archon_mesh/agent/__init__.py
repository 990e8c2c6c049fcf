"""The agent runtime: a container, a loop, hooks, events, sub-agents, a factory."""

from archon_mesh.agent.agent import Agent
from archon_mesh.agent.compaction import ContextCompactionMiddleware
from archon_mesh.agent.config import AgentConfig
from archon_mesh.agent.errors import HookError, IterationLimit, SubAgentNotFoundError
from archon_mesh.agent.events import AgentEvent, AgentEventsMiddleware
from archon_mesh.agent.factory import AgentFactory, AgentSpec
from archon_mesh.agent.history import HistoryList
from archon_mesh.agent.hooks import HookContext, HookDecision, HookEvent, Outcome, fail, go_on, retry, stop
from archon_mesh.agent.limits import BudgetMiddleware, PermissionMiddleware
from archon_mesh.agent.middleware import Middleware
from archon_mesh.agent.params import ModelParams
from archon_mesh.agent.policy import ToolPolicy
from archon_mesh.agent.state import AgentState, Phase, Place, get_context, get_place
from archon_mesh.agent.storage import GlobalStorage
from archon_mesh.agent.subagents import call_sub_agent, subagent

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentEvent",
    "AgentEventsMiddleware",
    "AgentFactory",
    "AgentSpec",
    "AgentState",
    "BudgetMiddleware",
    "ContextCompactionMiddleware",
    "GlobalStorage",
    "HistoryList",
    "HookContext",
    "HookDecision",
    "HookError",
    "HookEvent",
    "IterationLimit",
    "Middleware",
    "ModelParams",
    "Outcome",
    "PermissionMiddleware",
    "Phase",
    "Place",
    "SubAgentNotFoundError",
    "ToolPolicy",
    "call_sub_agent",
    "fail",
    "get_context",
    "get_place",
    "go_on",
    "retry",
    "stop",
    "subagent",
]
