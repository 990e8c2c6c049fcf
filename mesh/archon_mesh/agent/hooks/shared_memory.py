"""Shared memory as hooks: what upstream agents said comes before every call of the model, the answer goes out last."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from archon_mesh.agent.hooks.middleware import Middleware, settled
from archon_mesh.agent.hooks.points import HookContext
from archon_mesh.core.awareness import awareness_chat_message, awareness_message
from archon_mesh.core.messages import with_shared_context

_log = logging.getLogger(__name__)


class SharedMemoryMiddleware(Middleware):
    """`graph` is a SharedMemoryGraph, or has its methods awaited. Pulled are the answers of the direct predecessors;
    with `all_ancestors` of all ancestors."""

    def __init__(self, graph: Any, agent_id: str, *, all_ancestors: bool = False) -> None:
        self._graph = graph
        self._agent_id = agent_id
        self._pull = graph.pull_for_indirect if all_ancestors else graph.pull_for

    async def before_model(self, hook: HookContext) -> None:
        """One system message per source, after the system prompt; made for each call, so that none is ever doubled."""
        assert hook.params is not None
        items = await settled(self._pull(self._agent_id))
        if items:
            hook.params.messages[:] = with_shared_context(hook.params.messages, items)

    async def query_end(self, hook: HookContext) -> None:
        """The text of the final answer, and nothing else."""
        if hook.value.strip():
            await settled(self._graph.publish(self._agent_id, hook.value))


class AwarenessMiddleware(Middleware):
    """Tells an agent of the edges among its sub-agents, afresh for each run."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._text: str | None = None

    async def before_agent(self, hook: HookContext) -> None:
        """Looks at the graph. A sub-agent that isn't in it is a warning."""
        known = [node for node in _nodes(hook) if await self._has(node)]
        edges: Iterable[tuple[str, str]] = await settled(self._graph.get_edges_for_nodes(known))
        try:
            order = await settled(self._graph.get_topological_order(known))
        except ValueError:
            order = None
        self._text = awareness_message(edges, order)

    async def before_model(self, hook: HookContext) -> None:
        """After the system prompt."""
        assert hook.params is not None
        if self._text:
            at = 1 if hook.params.messages and hook.params.messages[0].role == "system" else 0
            hook.params.messages.insert(at, awareness_chat_message(self._text))

    async def _has(self, node: str) -> bool:
        there = bool(await settled(self._graph.has_node(node)))
        if not there:
            _log.warning("the sub-agent %s isn't in the shared memory graph", node)
        return there


def _nodes(hook: HookContext) -> list[str]:
    tools = hook.agent.subagents.by_key.values()
    return [str(getattr(getattr(one.callee, "agent", None), "agent_id", one.name)) for one in tools]
