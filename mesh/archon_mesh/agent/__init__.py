"""The agent runtime: agents, their loop, hooks, events, sub-agents and factory, and the graph that agents share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.lazy_names import lazy_names
from archon_mesh.agent.agent import Agent
from archon_mesh.agent.config import AgentConfig
from archon_mesh.agent.errors import HookError, IterationLimit, ModelRefused, ReplyCut, SubAgentNotFoundError
from archon_mesh.agent.events.types import AgentEvent
from archon_mesh.agent.factory import AgentFactory, AgentSpec
from archon_mesh.agent.hooks.agent_events import AgentEventsMiddleware
from archon_mesh.agent.hooks.compaction import ContextCompactionMiddleware
from archon_mesh.agent.hooks.context import HookContext, ModelParams
from archon_mesh.agent.hooks.limits import BudgetMiddleware, PermissionMiddleware
from archon_mesh.agent.hooks.middleware import Middleware, StreamChunk
from archon_mesh.agent.hooks.points import HookDecision, HookEvent, Outcome, fail, go_on, retry, stop
from archon_mesh.agent.hooks.recovery import RecoveryMiddleware
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.agent.state.running_agent import Phase, RunningAgent
from archon_mesh.agent.subagents import call_sub_agent, subagent
from archon_mesh.agent.tool_policy import ToolPolicy
from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger
from archon_mesh.tools.call_position import CallPosition, get_call_position

if TYPE_CHECKING:
    from archon_mesh.agent.hooks.tracing import TracingMiddleware
    from archon_mesh.agent.plan_handle import PlanHandle
    from archon_mesh.core.memory_graph import SharedMemoryGraph

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentEvent",
    "AgentEventsMiddleware",
    "AgentFactory",
    "AgentSpec",
    "AgentState",
    "BudgetMiddleware",
    "CallPosition",
    "Condition",
    "ContextCompactionMiddleware",
    "GlobalStorage",
    "HistoryList",
    "HookContext",
    "HookDecision",
    "HookError",
    "HookEvent",
    "InterceptionRule",
    "IterationLimit",
    "Middleware",
    "ModelParams",
    "ModelRefused",
    "Outcome",
    "PermissionMiddleware",
    "Phase",
    "PlanHandle",
    "RecoveryMiddleware",
    "ReplyCut",
    "RunningAgent",
    "SharedMemoryGraph",
    "StreamChunk",
    "SubAgentNotFoundError",
    "TimeoutPolicy",
    "ToolPolicy",
    "TracingMiddleware",
    "Trigger",
    "call_sub_agent",
    "fail",
    "get_call_position",
    "get_context",
    "go_on",
    "retry",
    "stop",
    "subagent",
]

# The graph imports networkx, the middleware OpenTelemetry, the handle all of planning.
__getattr__ = lazy_names(
    __name__,
    {
        "SharedMemoryGraph": "archon_mesh.core.memory_graph",
        "PlanHandle": "archon_mesh.agent.plan_handle",
        "TracingMiddleware": "archon_mesh.agent.hooks.tracing",
    },
)
