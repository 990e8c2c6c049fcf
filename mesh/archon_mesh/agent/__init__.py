"""The agent runtime: a container, a loop, hooks, events, sub-agents, a factory."""

from archon_mesh.agent.agent import Agent
from archon_mesh.agent.config import AgentConfig
from archon_mesh.agent.errors import HookError, IterationLimit, SubAgentNotFoundError
from archon_mesh.agent.events.types import AgentEvent, AgentEventsMiddleware
from archon_mesh.agent.factory import AgentFactory, AgentSpec
from archon_mesh.agent.hooks.compaction import ContextCompactionMiddleware
from archon_mesh.agent.hooks.limits import BudgetMiddleware, PermissionMiddleware
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.hooks.points import HookContext, HookDecision, HookEvent, Outcome, fail, go_on, retry, stop
from archon_mesh.agent.loop.model_request import ModelParams
from archon_mesh.agent.loop.tool_policy import ToolPolicy
from archon_mesh.agent.state.agent_state import AgentState, Phase, Place, get_context, get_place
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList
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
