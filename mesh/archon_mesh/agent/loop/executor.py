"""The loop: call the model, run the tool calls of its reply concurrently, and repeat until an answer or a limit.

Everything else that happens in a run is done by hooks; the loop does not know which ones there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from archon_mesh.agent.errors import IterationLimit
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop.model_call import ModelCaller
from archon_mesh.agent.loop.model_request import build_params
from archon_mesh.agent.loop.tool_calls import ToolCaller
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.agent.state.running_agent import Phase
from archon_mesh.core.messages import ChatMessage

MAX_PARTIAL_ANSWER: Final = 16_000
"""Characters of the partial answer of an IterationLimit; the newest are kept."""


async def run_loop(
    state: AgentState, query: Sequence[ChatMessage], hooks: HookRunner, resume_from: Sequence[ChatMessage] = ()
) -> str:
    """Returns the final answer.

    `resume_from` are the messages that an earlier attempt at the same query produced; the tool calls of the last one
    are not executed yet, and the loop continues with them. Raises IterationLimit, what the model raises, and the errors
    of hooks that fail the run.
    """
    outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, state.agent, state))
    if outcome.decision is HookDecision.STOP:
        return str(outcome.value)
    state.history.extend([*query, *resume_from])
    tool_caller = ToolCaller(state, hooks)
    state.current_iteration = sum(message.role == "assistant" for message in resume_from)
    if resume_from and resume_from[-1].tool_calls:
        text = await tool_caller.run(resume_from[-1].tool_calls)
        answer = await _offer_answer(state, hooks, ChatMessage("assistant", text)) if text is not None else None
        if answer is not None:
            return answer
    for iteration in range(state.current_iteration + 1, state.max_iterations + 1):
        await wait_until_resumed(state)
        state.current_iteration = iteration
        state.phase = Phase.THINKING
        params = build_params(state, is_last=iteration == state.max_iterations)
        reply = await ModelCaller(state, hooks).call(params)
        if reply.retry:
            continue
        message = reply.message
        if reply.final:
            state.history.append(message)
            return message.content
        if message.tool_calls and iteration < state.max_iterations:
            state.history.append(message)
            state.phase = Phase.ACTING
            await wait_until_resumed(state)
            text = await tool_caller.run(message.tool_calls)
            state.phase = Phase.OBSERVING
            if text is None:
                continue
            message = ChatMessage("assistant", text)
        elif message.tool_calls:
            break
        if (answer := await _offer_answer(state, hooks, message)) is not None:
            return answer
    raise IterationLimit(
        f"{state.agent_name} has no answer after {state.max_iterations} iterations",
        metadata={"partial_answer": _partial_answer(state.history)[-MAX_PARTIAL_ANSWER:]},
    )


async def wait_until_resumed(state: AgentState) -> None:
    """Returns when neither this agent nor any agent that called it is paused."""
    while any(ancestor.agent.paused for ancestor in state.lineage()):
        for ancestor in state.lineage():
            await ancestor.agent.wait_until_resumed()


async def _offer_answer(state: AgentState, hooks: HookRunner, message: ChatMessage) -> str | None:
    """Returns the answer that hooks accept, or None if a hook sends the model back to work. Both enter the history."""
    accepted = await _accepted_answer(state, hooks, message)
    state.history.append(message if accepted is None else accepted)
    return None if accepted is None else accepted.content


async def _accepted_answer(state: AgentState, hooks: HookRunner, message: ChatMessage) -> ChatMessage | None:
    if HookEvent.BEFORE_FINAL_RESPONSE not in hooks:
        return message
    outcome = await hooks.run(
        HookContext(HookEvent.BEFORE_FINAL_RESPONSE, state.agent, state, message=message, value=message.content)
    )
    if outcome.decision is HookDecision.RETRY:
        return None
    if isinstance(outcome.value, ChatMessage):
        return replace(outcome.value, tool_calls=())
    return message if outcome.value is None else replace(message, content=outcome.value, tool_calls=())


def _partial_answer(history: Sequence[ChatMessage]) -> str:
    """Returns the last ten texts of the model and its tools."""
    texts = [message.content for message in history if message.role in ("assistant", "tool") and message.content]
    return "\n\n".join(texts[-10:])
