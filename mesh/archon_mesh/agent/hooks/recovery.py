"""A middleware that recovers from failed model calls."""

from __future__ import annotations

from typing_extensions import override

from archon_mesh.agent.hooks.context import ModelParams
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall
from archon_mesh.agent.state.agent_state import get_context
from archon_mesh.llm.base import ModelReply, Usage
from archon_mesh.recovery import RecoveryOrchestrator, recovered


class RecoveryMiddleware(Middleware):
    """Repeats or replaces failed model calls as a RecoveryOrchestrator decides.

    Its handlers get the agent's name as the component. A substitute becomes the model's reply.
    """

    def __init__(self, recovery: RecoveryOrchestrator | None = None) -> None:
        self.recovery = recovery or RecoveryOrchestrator()

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        name = get_context().agent_name
        params.retries = 0  # its handlers are asked before anything is tried again

        def substitute(text: str) -> ModelReply:
            return ModelReply(text, (), Usage(0, 0), "", "stop")

        return await recovered(lambda: call(params), self.recovery, substitute, component=name)
