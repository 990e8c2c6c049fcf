"""The loop: call the model, carry out the calls of its reply all at once, and again, until there is an answer or a
limit. What else happens in a run, hooks do: the executor knows none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from archon_mesh.agent.errors import IterationLimit
from archon_mesh.agent.hooks.middleware import Hooks
from archon_mesh.agent.hooks.points import HookContext, HookDecision, HookEvent
from archon_mesh.agent.loop.model_call import ModelTurn
from archon_mesh.agent.loop.model_request import ModelParams
from archon_mesh.agent.loop.tool_calls import ToolTurn
from archon_mesh.agent.state.agent_state import AgentState, Phase
from archon_mesh.core.messages import ChatMessage

LAST_STEP: Final = (
    "This is your last step: no tool can be called any more. Give your final answer now, from what you know, and say "
    "what is missing."
)


async def execute(
    state: AgentState, query: Sequence[ChatMessage], hooks: Hooks, turns: Sequence[ChatMessage] = ()
) -> str:
    """The final answer. `turns` are what an earlier attempt at the same query came to, the calls of the last reply
    still to be carried out: it goes on from there. Raises IterationLimit, what the model raises, and what hooks fail it
    with."""
    agent = state.agent
    outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, agent, state))
    if outcome.decision is HookDecision.STOP:
        return str(outcome.value)
    state.history.extend([*query, *turns])
    tools = ToolTurn(state, hooks)
    state.current_iteration = sum(one.role == "assistant" for one in turns)
    if turns and turns[-1].tool_calls:
        ended = await tools.carry_out(turns[-1].tool_calls)
        if ended is not None and (said := await _said(state, hooks, ChatMessage("assistant", ended))) is not None:
            return said
    for iteration in range(state.current_iteration + 1, state.max_iterations + 1):
        await agent.gate(state)
        state.current_iteration = iteration
        state.phase = Phase.THINKING
        params = _params(state, last=iteration == state.max_iterations)
        turn = await ModelTurn(state, hooks).take(params)
        if turn.again:
            continue
        message = turn.message
        if turn.final:
            state.history.append(message)
            return message.content
        if message.tool_calls and iteration < state.max_iterations:
            state.history.append(message)
            state.phase = Phase.ACTING
            await agent.gate(state)
            answer = await tools.carry_out(message.tool_calls)
            state.phase = Phase.OBSERVING
            if answer is None:
                continue
            message = ChatMessage("assistant", answer)
        elif message.tool_calls:
            break
        if (said := await _said(state, hooks, message)) is not None:
            return said
    raise IterationLimit(
        f"{state.agent_name} has no answer after {state.max_iterations} iterations", found=_found(state.history)
    )


def _params(state: AgentState, *, last: bool) -> ModelParams:
    agent = state.agent
    messages = agent.messages_of(state)
    if last and state.max_iterations > 1 and (state.tool_calls or len(agent.tools)):
        messages.append(ChatMessage("system", LAST_STEP))
    return ModelParams(
        messages,
        () if last and state.max_iterations > 1 else agent.offered(state),
        agent.config.temperature,
        agent.config.max_tokens,
        agent.config.timeout,
    )


async def _said(state: AgentState, hooks: Hooks, message: ChatMessage) -> str | None:
    """The answer, which the history keeps; None: the model sees what it said, and is asked again."""
    final = await _final(state, hooks, message)
    state.history.append(message if final is None else final)
    return None if final is None else final.content


async def _final(state: AgentState, hooks: Hooks, message: ChatMessage) -> ChatMessage | None:
    """The answer that hooks let pass; None: it is to be thought over."""
    if HookEvent.BEFORE_FINAL_RESPONSE not in hooks:
        return message
    seen = HookContext(HookEvent.BEFORE_FINAL_RESPONSE, state.agent, state, message=message, value=message.content)
    outcome = await hooks.run(seen)
    if outcome.decision is HookDecision.RETRY:
        return None
    if isinstance(outcome.value, ChatMessage):
        return replace(outcome.value, tool_calls=())
    return message if outcome.value is None else replace(message, content=outcome.value, tool_calls=())


def _found(history: Sequence[ChatMessage]) -> str:
    """The last that was said and learned, for whoever can make something of it."""
    said = [one.content for one in history if one.role in ("assistant", "tool") and one.content]
    return "\n\n".join(said[-10:])
