"""Delivers the events of an agent's runs to a function."""

from __future__ import annotations

from typing_extensions import override

from archon_mesh.agent.events.types import EventHandler
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware


class AgentEventsMiddleware(Middleware):
    """Passes every event of the agent's runs, and of its sub-agents', to `on_event`. `session_id` is the thread id."""

    def __init__(self, session_id: str, on_event: EventHandler) -> None:
        self.session_id = session_id
        self.on_event = on_event

    @override
    def query_start(self, hook: HookContext) -> None:
        # A sub-agent's run inherits the handlers of its caller's run, so the handler may be there already.
        if self.on_event not in hook.state.emitter.handlers:
            hook.state.emitter.handlers.append(self.on_event)
        hook.state.thread_id = self.session_id
