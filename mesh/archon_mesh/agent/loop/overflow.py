"""Shortens a history that the model's context window cannot hold."""

from __future__ import annotations

import logging
from typing import Final

from archon_mesh.agent.hooks.compaction import ContextCompactionMiddleware
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.compaction import sliding_window, without_tool_results
from archon_mesh.llm.base import ModelRequest, estimate_input

_log = logging.getLogger(__name__)

TARGET: Final = 0.5
"""Part of its tokens that a shortened history may keep: the provider does not say how much was too much."""


async def compact_history(state: AgentState) -> bool:
    """Shortens the history: by the agent's compaction middleware, then to the last round, then without its results.
    Returns whether it became shorter."""
    history = state.history
    before = _tokens(state)
    middleware = next((each for each in state.agent.registered if isinstance(each, ContextCompactionMiddleware)), None)
    if middleware is not None:
        await middleware.compact(state.agent)
    for shorten, window in ((without_tool_results, 1), (sliding_window, 1), (without_tool_results, 0)):
        if _tokens(state) > before * TARGET:
            history.replace_all(shorten(list(history), window))
    after = _tokens(state)
    if after < before:
        _log.info("%s: context overflow, compacted the history from %d to %d tokens", state.agent_name, before, after)
    return after < before


def _tokens(state: AgentState) -> int:
    return estimate_input(ModelRequest(tuple(state.history)))
