"""Builds the parameters of a model call from the state of the run."""

from __future__ import annotations

from archon_mesh.agent.hooks.context import ModelParams
from archon_mesh.agent.loop.notes import CUT, LAST_STEP
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ORIGIN, ChatMessage
from archon_mesh.llm.base import ToolSpec


def build_params(state: AgentState, *, is_last: bool, note: str = "") -> ModelParams:
    """Returns the system prompt, the request for a typed answer, the history, a note if there is one, and the tools
    that the policy permits.

    In the last of several iterations the model gets no tools, and is asked for its final answer.
    """
    agent = state.agent
    messages = [ChatMessage("system", agent.system_prompt)] if agent.system_prompt else []
    messages += [state.output.note] if state.output is not None else []
    messages += state.history
    without_tools = is_last and state.max_iterations > 1
    if note:
        messages.append(_note(note))
    elif without_tools and (state.tool_calls or len(agent.tools)):
        messages.append(_note(LAST_STEP))
    return ModelParams(
        messages,
        () if without_tools else _permitted_tools(state),
        agent.temperature,
        agent.max_tokens,
        agent.model_timeout,
        agent.retries,
        agent.idle_timeout,
        first_token_timeout=agent.first_token_timeout,
        # The rest of a reply that was cut is no JSON by itself.
        output_schema=state.output.schema if state.output is not None and note != CUT else None,
    )


def _note(text: str) -> ChatMessage:
    return ChatMessage("system", text, metadata={ORIGIN: "note"})


def _permitted_tools(state: AgentState) -> tuple[ToolSpec, ...]:
    registry, policy, last = state.agent.tools, state.agent.policy, state.agent.tools_last
    offered = tuple(
        each.spec
        for each in registry.registrations
        if policy.offers(each.name, state.tool_calls, dangerous=each.tool.dangerous, session_id=state.thread_id)
    )
    if not last:
        return offered
    return tuple(sorted(offered, key=lambda spec: last.index(spec.name) + 1 if spec.name in last else 0))
