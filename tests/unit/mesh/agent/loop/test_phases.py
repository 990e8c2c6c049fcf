"""The phases of an agent's run."""

from __future__ import annotations

import asyncio

from archon_mesh.agent import Agent, HookContext, Middleware, ModelParams, Phase, RunningAgent
from archon_mesh.agent.hooks.middleware import ModelCall
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ScriptedModel
from tests.fixtures.scripted_model import says
from tests.fixtures.waiting import run_ready_tasks, until


class Planner(Middleware):
    """Sets the planning phases, and records the phase at each step."""

    agent: Agent

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def look(self, when: str, agent: RunningAgent) -> None:
        self.seen.append((when, agent.phase))

    async def query_start(self, hook: HookContext) -> None:
        self.look("begins", hook.agent)
        hook.state.phase = Phase.PLANNING
        await asyncio.sleep(0)
        self.look("plans", hook.agent)

    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        self.look("model", self.agent)
        return await call(params)

    async def after_tool(self, hook: HookContext) -> None:
        hook.state.phase = Phase.REPLANNING
        await asyncio.sleep(0)
        self.look("plans anew", hook.agent)

    def before_final_response(self, hook: HookContext) -> None:
        self.look("answers", hook.agent)


async def test_phases_are_visible_from_idle_to_finished() -> None:
    planner = Planner()

    def act() -> str:
        """Pauses the agent."""
        planner.look("tool", agent)
        agent.pause()
        return "done"

    model = ScriptedModel([says("", ToolCall("c", "act", "{}")), says("So.")])
    agent = planner.agent = Agent("a", model=model, tools=[act], middlewares=[planner])
    planner.look("before", agent)
    running = asyncio.create_task(agent.run_async("x"))
    await until(lambda: agent.phase is Phase.OBSERVING)
    await run_ready_tasks()
    planner.look("held", agent)
    agent.resume()
    await running
    planner.look("after", agent)
    assert planner.seen == [
        ("before", "idle"),
        ("begins", "executing"),
        ("plans", "planning"),
        ("model", "thinking"),
        ("tool", "acting"),
        ("plans anew", "replanning"),
        ("held", "observing"),
        ("model", "thinking"),
        ("answers", "thinking"),
        ("after", "finished"),
    ]
