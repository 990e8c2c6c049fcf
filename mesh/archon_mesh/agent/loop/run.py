"""One query of an agent, from its first hook to its last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument
from archon_mesh.agent.events import types as events
from archon_mesh.agent.events.emit import of_run
from archon_mesh.agent.hooks.middleware import Hooks, Middleware
from archon_mesh.agent.hooks.points import HookContext, HookDecision, HookEvent
from archon_mesh.agent.loop.executor import execute
from archon_mesh.agent.state.agent_state import AgentState, Phase, acting, current_state, new_id
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import ChatMessage

if TYPE_CHECKING:
    from archon_mesh.agent.agent import Agent
    from archon_mesh.agent.events.types import Emitter


MAX_DEPTH: Final = 10
"""Agents that call each other, one below the other."""


async def run_query(
    agent: Agent,
    message: str | Sequence[ChatMessage],
    context: Mapping[str, Any],
    emitter: Emitter,
    turns: Sequence[ChatMessage] = (),
) -> str:
    """The answer. `turns`: see execute. An agent that is called by a tool, a hook or a sub-agent of another is part of
    that one's run."""
    parent = current_state()
    above = list(parent.lineage()) if parent is not None else []
    if any(one.agent is agent for one in above):
        raise FailedPrecondition(
            f"{agent.name} waits for this very call: it can't be called by itself", reason="DELEGATION_LOOP"
        )
    if len(above) >= MAX_DEPTH:
        raise FailedPrecondition(f"{len(above)} agents wait for each other", reason="DELEGATION_TOO_DEEP")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent.turn())
        history = await _history(agent, stack)
        state = _state(agent, history, parent, context, emitter)
        history.update_context(state.run_id, state.root_run_id, agent.name)
        agent.state = state
        with acting(state):
            return await _query(state, message, turns)


async def _history(agent: Agent, stack: AsyncExitStack) -> HistoryList:
    if agent.session_manager is None:
        return agent.history
    agent.history = await stack.enter_async_context(
        agent.session_manager.open(agent.user_id, agent.session_id, agent.name)
    )
    agent.session_id = agent.history.session_id or agent.session_id
    return agent.history


def _state(
    agent: Agent, history: HistoryList, parent: AgentState | None, context: Mapping[str, Any], emitter: Emitter
) -> AgentState:
    run_id = new_id()
    storage = agent.global_storage
    if storage is None:
        storage = parent.global_storage if parent is not None else GlobalStorage()
    if parent is not None:
        heard = parent.emitter.listeners
        emitter.listeners[:0] = [one for one in heard if one not in emitter.listeners]
    return AgentState(
        agent.agent_id,
        run_id,
        parent.root_run_id if parent is not None else run_id,
        parent.run_id if parent is not None else None,
        agent.name,
        agent.max_iterations,
        history,
        storage,
        context=context or (parent.context if parent is not None else {}),
        parent=parent,
        thread_id=parent.thread_id if parent is not None else agent.session_id,
        agent=agent,
        emitter=emitter,
    )


async def _query(state: AgentState, message: str | Sequence[ChatMessage], turns: Sequence[ChatMessage]) -> str:
    hooks = state.agent.hooks(_inherited(state))
    state.phase = Phase.EXECUTING

    async def answered() -> str:
        return await _answered(state, message, hooks, turns)

    try:
        if hooks.queries:
            answer = await hooks.around_query(state, _messages(message)[-1].content, answered)()
        else:
            answer = await answered()
    except BaseException as error:
        state.phase = Phase.ERROR
        _close_calls(state.history)
        if state.emitter.listeners:
            code = error.code if isinstance(error, ArchonError) else type(error).__name__
            told = str(error) or code
            await state.emitter.emit(events.RunError(message=told, code=code, **of_run(state)))
        raise
    state.phase = Phase.FINISHED
    if state.emitter.listeners:
        finished = events.RunFinished(result=answer, thread_id=state.thread_id, **of_run(state))
        await state.emitter.emit(finished)
    return answer


def _inherited(state: AgentState) -> list[Middleware]:
    """What agents above this one use for those below, too, outermost first."""
    if state.parent is None:
        return []
    found = {type(one): None for one in state.agent.registered}
    given = []
    for above in state.parent.lineage():
        for one in above.agent.registered:
            if isinstance(one, Middleware) and one.inherited and type(one) not in found:
                found[type(one)] = None
                given.append(one)
    return given


async def _answered(
    state: AgentState, message: str | Sequence[ChatMessage], hooks: Hooks, turns: Sequence[ChatMessage]
) -> str:
    query = _messages(message)
    start = HookContext(HookEvent.QUERY_START, state.agent, state, value=query[-1].content)
    outcome = await hooks.run(start)
    if state.emitter.listeners:
        await state.emitter.emit(events.RunStarted(thread_id=state.thread_id, **of_run(state)))
    if outcome.decision is HookDecision.STOP:
        return str(outcome.value)
    if outcome.value is not None:
        query[-1] = ChatMessage("user", outcome.value)
    answer = await execute(state, query, hooks, turns)
    for event in (HookEvent.AFTER_AGENT, HookEvent.QUERY_END):
        if event in hooks:
            seen = HookContext(event, state.agent, state, value=answer)
            await hooks.run(seen)
            answer = seen.value
    return answer


def _messages(message: str | Sequence[ChatMessage]) -> list[ChatMessage]:
    if isinstance(message, str):
        return [ChatMessage("user", message)]
    if not message or not all(isinstance(one, ChatMessage) for one in message):
        raise InvalidArgument("an agent is given a text, or messages of which the last is the query")
    return list(message)


def _close_calls(history: HistoryList) -> None:
    """A run that broke off between calls and their results must not spoil the next: every call has an answer."""
    for at in range(len(history) - 1, -1, -1):
        if history[at].role == "tool":
            continue
        answered = {one.tool_call_id for one in history[at + 1 :]}
        for call in history[at].tool_calls:
            if call.id not in answered:
                history.append(ChatMessage("tool", "cancelled before it was done", tool_call_id=call.id))
        return
