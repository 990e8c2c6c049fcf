"""One query of an agent, from its first hook to its last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, Protocol

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, OutputMismatch
from archon_mesh.agent.events import types as events
from archon_mesh.agent.events.emit import Emitter
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.interception import InterceptionMiddleware
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.ids import new_id
from archon_mesh.agent.loop.executor import run_loop
from archon_mesh.agent.loop.run_lock import RunLock
from archon_mesh.agent.state.agent_state import AgentState, bind_state, current_state
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.agent.state.running_agent import Phase, RunningAgent
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.tools.people.ask import QuestionAsked
from archon_mesh.tools.remote_calls import remote_calls

MAX_DEPTH: Final = 10
"""Length of the longest chain of agents that call each other."""

Loop = Callable[[AgentState, Sequence[ChatMessage], HookRunner, Sequence[ChatMessage]], Awaitable[str]]
"""Finds the answer to a query, as `run_loop` does."""


class QueryAgent(RunningAgent, Protocol):
    """An agent as `run_query` needs it."""

    state: AgentState | None
    run_lock: RunLock

    def hook_runner(self, inherited: Sequence[Middleware] = ()) -> HookRunner:
        """Returns the hooks of a run: `inherited` middlewares of calling agents first, then the agent's own."""
        ...


async def run_query(
    agent: QueryAgent,
    message: str | Sequence[ChatMessage],
    context: Mapping[str, Any],
    emitter: Emitter,
    resume_from: Sequence[ChatMessage] = (),
    max_iterations: int | None = None,
    loop: Loop = run_loop,
    output: TypedOutput | None = None,
) -> str:
    """Returns the answer to a query. `resume_from` continues an earlier attempt, as in `run_loop`; `max_iterations`
    defaults to the agent's limit. `loop` finds the answer, between the hooks of the run. With `output` the answer is
    JSON of that type, also after the hooks; OutputMismatch is raised otherwise.

    An agent that is called by a tool, a hook or a sub-agent of another agent becomes part of that agent's run. Raises
    FailedPrecondition if the agent would wait for itself, or if the chain of callers is too long.
    """
    parent = current_state()
    callers = list(parent.lineage()) if parent is not None else []
    if any(caller.agent.identity is agent.identity for caller in callers):
        raise FailedPrecondition(
            f"delegation loop: {agent.name} waits for this call and cannot be called by it", reason="DELEGATION_LOOP"
        )
    if len(callers) >= MAX_DEPTH:
        raise FailedPrecondition(
            f"delegation too deep: {len(callers)} agents wait for each other", reason="DELEGATION_TOO_DEEP"
        )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(agent.run_lock.taken())
        await stack.enter_async_context(remote_calls())
        history = await _open_history(agent, stack)
        state = _new_state(agent, history, parent, context, emitter)
        state.max_iterations, state.output = max_iterations or agent.max_iterations, output
        history.update_context(state.run_id, state.root_run_id, agent.name)
        agent.state = state
        with bind_state(state):
            return await _run(agent, state, message, resume_from, loop)


async def _open_history(agent: QueryAgent, stack: AsyncExitStack) -> HistoryList:
    if agent.session_manager is None:
        return agent.history
    agent.history = await stack.enter_async_context(
        agent.session_manager.open(agent.user_id, agent.session_id, agent.name)
    )
    agent.session_id = agent.history.session_id or agent.session_id
    return agent.history


def _new_state(
    agent: QueryAgent, history: HistoryList, parent: AgentState | None, context: Mapping[str, Any], emitter: Emitter
) -> AgentState:
    run_id = new_id()
    storage = agent.global_storage
    if storage is None:
        storage = parent.global_storage if parent is not None else GlobalStorage()
    if parent is not None:
        inherited = [handler for handler in parent.emitter.handlers if handler not in emitter.handlers]
        emitter.handlers[:0] = inherited
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


async def _run(
    agent: QueryAgent,
    state: AgentState,
    message: str | Sequence[ChatMessage],
    resume_from: Sequence[ChatMessage],
    loop: Loop,
) -> str:
    hooks = agent.hook_runner(_inherited_middlewares(state))
    state.phase = Phase.EXECUTING

    async def answer_query() -> str:
        return await _answer_query(state, message, hooks, resume_from, loop)

    try:
        if hooks.wraps_query:
            answer = await hooks.wrap_query(state, _as_messages(message)[-1].content, answer_query)()
        else:
            answer = await answer_query()
        answer = _checked(state, answer)
    except QuestionAsked:
        state.phase = Phase.IDLE  # the attempt ends; a later one goes on
        raise
    except BaseException as error:
        state.phase = Phase.ERROR
        _complete_calls(state.history)
        if state.emitter.handlers:
            code = error.code if isinstance(error, ArchonError) else type(error).__name__
            text = str(error) or code
            await state.emitter.emit(events.RunError(message=text, code=code, **state.event_fields()))
        raise
    state.phase = Phase.FINISHED
    if state.emitter.handlers:
        await state.emitter.emit(events.RunFinished(result=answer, thread_id=state.thread_id, **state.event_fields()))
    return answer


def _inherited_middlewares(state: AgentState) -> list[Middleware]:
    """Returns the inherited middlewares of the calling agents, nearest caller first, one per class, and the one that
    holds their rules."""
    if state.parent is None:
        return []
    classes = {type(item) for item in state.agent.registered}
    inherited: list[Middleware] = []
    for caller in state.parent.lineage():
        for item in caller.agent.registered:
            if isinstance(item, Middleware) and item.inherited and type(item) not in classes:
                classes.add(type(item))
                inherited.append(item)
        if caller.agent.rules:
            inherited.append(InterceptionMiddleware(caller.agent.rules))
    return inherited


async def _answer_query(
    state: AgentState,
    message: str | Sequence[ChatMessage],
    hooks: HookRunner,
    resume_from: Sequence[ChatMessage],
    loop: Loop,
) -> str:
    query = _as_messages(message)
    await state.agent.connect_tools()
    outcome = await hooks.run(HookContext(HookEvent.QUERY_START, state.agent, state, value=query[-1].content))
    if state.emitter.handlers:
        await state.emitter.emit(events.RunStarted(thread_id=state.thread_id, **state.event_fields()))
    if outcome.decision is HookDecision.STOP:
        return str(outcome.value)
    if outcome.value is not None:
        query[-1] = replace(query[-1], role="user", content=outcome.value)
    answer = await loop(state, query, hooks, resume_from)
    for event in (HookEvent.AFTER_AGENT, HookEvent.QUERY_END):
        if event in hooks:
            context = HookContext(event, state.agent, state, value=answer)
            await hooks.run(context)
            answer = context.value
    return answer


def _checked(state: AgentState, answer: str) -> str:
    """Returns an answer, which hooks may have changed, as the output of the run. Raises OutputMismatch."""
    if state.output is None:
        return answer
    try:
        state.output.type.parse(answer)
        return answer
    except OutputMismatch:
        pass
    try:
        return state.output.read(answer)
    except OutputMismatch as error:
        raise OutputMismatch.of(error.field_violations, error.text, state.agent_name) from None


def _as_messages(message: str | Sequence[ChatMessage]) -> list[ChatMessage]:
    if isinstance(message, str):
        return [ChatMessage("user", message)]
    if not message or not all(isinstance(each, ChatMessage) for each in message):
        raise InvalidArgument("invalid message: expected a text, or a list of chat messages that ends with the query")
    return list(message)


def _complete_calls(history: HistoryList) -> None:
    """Adds a result to each open tool call, so that a broken run leaves a valid conversation for the next one."""
    for index in range(len(history) - 1, -1, -1):
        if history[index].role == "tool":
            continue
        answered = {message.tool_call_id for message in history[index + 1 :]}
        for call in history[index].tool_calls:
            if call.id not in answered:
                history.append(ChatMessage("tool", "cancelled before it was done", tool_call_id=call.id))
        return
