"""Executes the subtasks of a plan with an agent's tools, model and sub-agents, as parts of its run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, Protocol, cast

from typing_extensions import override

from archon_mesh.agent.events.emit import Emitter
from archon_mesh.agent.hooks.context import ModelParams
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, SingleHook
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.ids import new_id
from archon_mesh.agent.loop.executor import wait_until_resumed
from archon_mesh.agent.loop.model_call import ModelCaller
from archon_mesh.agent.loop.tool_calls import ToolCaller
from archon_mesh.agent.state.agent_state import AgentState, bind_state, get_context
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.engine.types import Amount
from archon_mesh.llm.base import DECLINED, LENGTH, ModelChunk, ModelReply, ModelRequest, Usage
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.prices import estimate_call
from archon_mesh.planning.attempt_meter import current_meter
from archon_mesh.planning.worker import Spending
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.result import ToolOutcome

MAX_HOOK_RETRIES: Final = 3
"""How often hooks may ask for another reply of one model call."""

_spending: ContextVar[Spending | None] = ContextVar("archon_plan_spending", default=None)


class PlanAgent(RunningAgent, Protocol):
    """An agent as the worker of its plans needs it."""

    registered: list[Middleware | SingleHook]

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        """Returns the answer to a query as text."""
        ...

    def forked(self) -> PlanAgent:
        """Returns a copy with the same parts."""
        ...

    def restricted(self, tool_names: Collection[str], output: object = None) -> PlanAgent:
        """Returns a fork with these tools only, without history and sub-agents, whose answers are of a type."""
        ...


class SpendingMiddleware(Middleware):
    """Counts the model calls of a subtask and of its sub-agents, within the budget of the plan."""

    inherited = True

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        before = len(params.tries)
        try:
            async with covered(params):
                return await call(params)
        finally:
            if (spending := _spending.get()) is not None:
                spending.model_calls += 1
                spending.cost_micro_usd += params.spent(before).cost_micro_usd


@asynccontextmanager
async def covered(params: ModelParams) -> AsyncIterator[None]:
    """Has the budget of the plan cover a model call, if it has one. Raises BudgetExhausted if too little is left."""
    if (meter := current_meter()) is None:
        yield
        return
    tokens, cost = estimate_call(get_context().agent.model, params.request())
    before = len(params.tries)

    def spent() -> Amount:
        usage = params.spent(before)
        return Amount(usage.input_tokens + usage.output_tokens, usage.cost_micro_usd, 1)

    async with meter.reserved(tokens, cost, spent):
        yield


class AgentWorker:
    """Works for one run of an agent: its work is part of that run, with its hooks, policies, budget and events.

    A subtask that thinks, or needs an agent for its tool, runs on a restricted fork of the agent.
    """

    def __init__(self, state: AgentState, hooks: HookRunner) -> None:
        self._state = state
        self._hooks = hooks
        self._agent = cast(PlanAgent, state.agent)
        self._fork = self._agent.forked()
        self._fork.registered = [SpendingMiddleware(), *self._fork.registered]
        agent = state.agent

        def is_offered(name: str, *, dangerous: bool) -> bool:
            return agent.policy.offers(name, state.tool_calls, dangerous=dangerous, session_id=state.thread_id)

        self._roles = {
            key: tool.description for key, tool in agent.sub_agents.items() if is_offered(key, dangerous=tool.dangerous)
        }
        self._tools = ToolRegistry.of(
            each
            for each in agent.tools.registrations
            if each.name not in agent.sub_agents and is_offered(each.name, dangerous=each.tool.dangerous)
        )

    @property
    def tools(self) -> ToolRegistry:
        return self._tools

    @property
    def roles(self) -> Mapping[str, str]:
        return self._roles

    async def call_tool(self, name: str, arguments: Mapping[str, Any], number: int, spending: Spending) -> ToolOutcome:
        return await self._call(name, arguments, number, spending)

    async def ask_role(self, role: str, message: str, number: int, spending: Spending) -> ToolOutcome:
        return await self._call(role, {"task": message}, number, spending)

    async def think(
        self,
        message: str,
        tools: Collection[str],
        number: int,
        spending: Spending,
        *,
        output: Mapping[str, Any] | None = None,
    ) -> str:
        fork = self._agent.restricted(tools, output)
        fork.registered = [SpendingMiddleware(), *fork.registered]
        await wait_until_resumed(self._state)
        with bind_state(self._state), _counted(spending):
            return await fork.call(message, self._state, stateless=False)

    async def _call(self, name: str, arguments: Mapping[str, Any], number: int, spending: Spending) -> ToolOutcome:
        # A state of its own, because calls of a plan run at the same time and are not part of the conversation.
        history = HistoryList(agent_name=self._state.agent_name)
        state = replace(self._state, history=history, agent=self._fork, parent=self._state)
        call = ToolCall(f"call_{new_id()[:12]}", name, json.dumps(arguments, ensure_ascii=False, default=str))
        await wait_until_resumed(self._state)
        with bind_state(state), _counted(spending):
            return await ToolCaller(state, self._hooks).run_one(call, number)


class RunModel:
    """The model of a run as a model client: its calls have the hooks, retries, fallback and budget of the run.

    `is_shown` says whether the text of the replies is emitted to the event handlers.
    """

    def __init__(self, state: AgentState, hooks: HookRunner, *, is_shown: bool) -> None:
        self._state = state if is_shown else replace(state, emitter=Emitter())
        self._hooks = hooks

    @property
    def model(self) -> str:
        return self._state.agent.model.model

    async def generate(self, request: ModelRequest) -> ModelReply:
        agent = self._state.agent
        prompt = [ChatMessage("system", agent.system_prompt)] if agent.system_prompt else []
        await wait_until_resumed(self._state)
        for _ in range(MAX_HOOK_RETRIES + 1):
            params = ModelParams(
                [*prompt, *request.messages],
                (),
                agent.temperature if request.temperature is None else request.temperature,
                agent.max_tokens if request.max_tokens is None else request.max_tokens,
                min(request.timeout, agent.model_timeout),
                agent.retries,
                agent.idle_timeout,
                request.is_json,
                agent.first_token_timeout,
                request.output_schema,
            )
            async with covered(params):
                turn = await ModelCaller(self._state, self._hooks).call(params)
            if not turn.retry:
                break
        message = turn.message
        finish_reason = DECLINED if turn.refused else LENGTH if turn.cut else "stop"
        return ModelReply(message.content, message.tool_calls, Usage(0, 0), self.model, finish_reason)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        async for chunk in stream_reply(await self.generate(request)):
            yield chunk

    async def close(self) -> None:
        pass


@contextmanager
def _counted(spending: Spending) -> Iterator[None]:
    token = _spending.set(spending)
    try:
        yield
    finally:
        _spending.reset(token)
