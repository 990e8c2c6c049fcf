"""The agent framework of Archon: agents, tools, models, plans, workflows, memory, and their connection to a mesh.

The names that most programs need. docs/reference/python.md lists the modules with the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon_mesh.agent import Agent, HookDecision, Middleware, subagent
    from archon_mesh.declared import load_agent
    from archon_mesh.llm import ScriptedModel, create_model
    from archon_mesh.node import serve
    from archon_mesh.tools import Tool, ToolResult, tool

__all__ = [
    "Agent",
    "HookDecision",
    "Middleware",
    "ScriptedModel",
    "Tool",
    "ToolResult",
    "create_model",
    "load_agent",
    "serve",
    "subagent",
    "tool",
]

_MODULES: Final = {
    "Agent": "archon_mesh.agent",
    "HookDecision": "archon_mesh.agent",
    "Middleware": "archon_mesh.agent",
    "ScriptedModel": "archon_mesh.llm",
    "Tool": "archon_mesh.tools",
    "ToolResult": "archon_mesh.tools",
    "create_model": "archon_mesh.llm",
    "load_agent": "archon_mesh.declared",
    "serve": "archon_mesh.node",
    "subagent": "archon_mesh.agent",
    "tool": "archon_mesh.tools",
}

__getattr__ = lazy_names(__name__, _MODULES)
