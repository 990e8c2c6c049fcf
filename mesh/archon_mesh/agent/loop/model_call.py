"""One call of the model: hooks before it, around it and after it, and its text as it comes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from archon.errors import Unavailable
from archon_mesh.agent.events.emit import THINKING, Message, of_run
from archon_mesh.agent.hooks.middleware import Hooks
from archon_mesh.agent.hooks.points import HookContext, HookDecision, HookEvent
from archon_mesh.agent.loop.model_request import ModelParams
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import ModelReply


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model said. `again`: a hook wants another reply; `final`: a hook has stopped the run with it."""

    message: ChatMessage
    again: bool = False
    final: bool = False


class ModelTurn:
    """One per iteration."""

    def __init__(self, state: AgentState, hooks: Hooks) -> None:
        self._state = state
        self._hooks = hooks

    async def take(self, params: ModelParams) -> Turn:
        """Raises what the model raises, HookError, and what hooks fail the run with."""
        state, hooks = self._state, self._hooks
        if HookEvent.BEFORE_MODEL in hooks:
            outcome = await hooks.run(HookContext(HookEvent.BEFORE_MODEL, state.agent, state, params=params))
            if outcome.decision is HookDecision.STOP:
                return Turn(_message(outcome.value), final=True)
        reply = await hooks.around(self._call)(params)
        message = ChatMessage("assistant", reply.text, tool_calls=_named(reply.tool_calls, state.current_iteration))
        if HookEvent.AFTER_MODEL in hooks:
            seen = HookContext(
                HookEvent.AFTER_MODEL, state.agent, state, params=params, message=message, value=message.content
            )
            outcome = await hooks.run(seen)
            if outcome.decision is HookDecision.RETRY:
                return Turn(message, again=True)
            if outcome.decision is HookDecision.STOP:
                return Turn(_message(outcome.value), final=True)
            message = outcome.value if outcome.value is not None else message
        return Turn(message)

    async def _call(self, params: ModelParams) -> ModelReply:
        state = self._state
        if not state.emitter.listeners and not self._hooks.streams:
            return await state.agent.models.client.generate(params.request())
        about = of_run(state)
        said, thought = Message(state.emitter, about), Message(state.emitter, about, THINKING)
        text: list[str] = []
        reply: ModelReply | None = None
        try:
            async for chunk in state.agent.models.client.stream(params.request()):
                if chunk.thinking_delta:
                    await thought.text(chunk.thinking_delta)
                if chunk.text_delta:
                    await thought.end()
                    piece = await self._hooks.chunk(chunk.text_delta, params, self._seen)
                    text.append(piece)
                    await said.text(piece)
                reply = chunk.reply or reply
        finally:
            await thought.end()
            await said.end()
        if reply is None:
            raise Unavailable("the model's stream was cut off before the reply was complete")
        if text and self._hooks.streams:
            reply = replace(reply, text="".join(text))
        if not text and reply.text:
            await said.text(reply.text)
            await said.end()
        return reply

    def _seen(self) -> HookContext:
        return HookContext(HookEvent.STREAM_CHUNK, self._state.agent, self._state)


def _named(calls: tuple[ToolCall, ...], iteration: int) -> tuple[ToolCall, ...]:
    """Some servers leave ids out, but an answer must name its call."""
    if all(call.id for call in calls):
        return calls
    return tuple(
        call if call.id else replace(call, id=f"call_{iteration}_{number}") for number, call in enumerate(calls, 1)
    )


def _message(value: str | ChatMessage) -> ChatMessage:
    return value if isinstance(value, ChatMessage) else ChatMessage("assistant", value)
