"""Sub-agents: keys, forks, serialisation, and the run they share."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from archon.errors import AlreadyExists, FailedPrecondition, InvalidArgument, Unavailable
from archon_mesh.agent import Agent, AgentState, SubAgentNotFoundError, call_sub_agent, get_context, subagent
from archon_mesh.agent.errors import NotAnAgent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel
from archon_mesh.tools import tool
from tests.fixtures.scripted_model import says
from tests.fixtures.waiting import run_ready_tasks


def asks(*keys: str, text: str = "do it") -> ModelReply:
    return says("", *(ToolCall(f"{key}-{n}", key, f'{{"task": "{text}"}}') for n, key in enumerate(keys)))


def poet(*replies: Any, **more: Any) -> Agent:
    return Agent("poet", description="Writes verses.", model=ScriptedModel(replies), **more)


def tool_texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.history if message.role == "tool"]


async def test_sub_agent_is_a_tool_and_its_answer_is_the_result() -> None:
    writer = poet(says("a verse"))
    model = ScriptedModel([asks("poet"), says("here: a verse")])
    lead = Agent("lead", model=model, sub_agents=[writer])
    assert await lead.run_async("?") == "here: a verse"
    (spec,) = model.requests[0].tools
    assert (spec.name, spec.description) == ("poet", "Writes verses.")
    assert tool_texts(lead) == ["a verse"]
    assert [message.content for message in writer.history] == ["do it", "a verse"]


async def test_sub_agents_share_ids_and_storage_but_not_history() -> None:
    seen: list[AgentState] = []

    @tool
    def note(agent_state: AgentState) -> str:
        """Notes."""
        seen.append(agent_state)
        agent_state.global_storage.compute("notes", lambda notes: [*notes, agent_state.agent_name], [])
        return "noted"

    call = says("", ToolCall("n", "note", "{}"))
    inner = poet(call, says("inner"), tools=[note])
    middle = Agent("middle", model=ScriptedModel([asks("poet"), says("middle")]), sub_agents=[inner])
    lead = Agent("lead", model=ScriptedModel([call, asks("middle"), says("lead")]), tools=[note], sub_agents=[middle])
    await lead.run_async("?", {"user": "me"})
    top, bottom = seen
    assert middle.state is not None
    assert bottom.parent_run_id == middle.state.run_id
    assert middle.state.parent_run_id == top.run_id
    assert {state.root_run_id for state in (top, bottom, middle.state)} == {top.run_id}
    assert top.global_storage is bottom.global_storage
    assert top.global_storage.to_dict() == {"notes": ["lead", "poet"]}
    assert bottom.context == {"user": "me"}
    assert top.history is not bottom.history


async def test_stateless_sub_agent_runs_on_a_discarded_fork() -> None:
    model = ScriptedModel([says("first"), says("again")])
    writer = Agent("poet", model=model)
    await writer.run_async("before")
    lead = Agent("lead", model=ScriptedModel([asks("poet"), says("done")]))
    lead.register_agent(writer, name="poet", description="d", stateless=True)
    await lead.run_async("?")
    assert [message.content for message in model.requests[1].messages] == ["before", "first", "do it"]
    assert [message.content for message in writer.history] == ["before", "first"]


class Counting(ScriptedModel):
    """Counts the maximum number of concurrent calls."""

    def __init__(self) -> None:
        super().__init__()
        self.running = self.most = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.running += 1
        self.most = max(self.most, self.running)
        await run_ready_tasks()
        self.running -= 1
        return says("ok")


@pytest.mark.parametrize(("stateless", "limit", "most"), [(False, 8, 1), (True, 8, 5), (True, 2, 2)])
async def test_stateful_calls_are_serial_and_stateless_ones_limited(stateless: bool, limit: int, most: int) -> None:
    model = Counting()
    lead = Agent("lead", model=ScriptedModel([asks(*["poet"] * 5), says("done")]), max_running_subagents=limit)
    lead.register_agent(Agent("poet", model=model), stateless=stateless)
    await lead.run_async("?")
    assert model.most == most


async def test_sub_agent_may_be_registered_during_a_run() -> None:
    @tool
    def hire(agent_state: AgentState) -> str:
        """Registers a poet."""
        agent_state.agent.register_agent(poet(says("a verse")))
        return "hired"

    model = ScriptedModel([says("", ToolCall("h", "hire", "{}")), asks("poet"), says("done")])
    lead = Agent("lead", model=model, tools=[hire])
    await lead.run_async("?")
    assert tool_texts(lead) == ["hired", "a verse"]
    assert [[spec.name for spec in request.tools] for request in model.requests][:2] == [["hire"], ["hire", "poet"]]


async def test_call_sub_agent_finds_a_key_or_lists_the_keys() -> None:
    got: list[str] = []

    @tool
    async def ask() -> str:
        """Asks."""
        got.append(await call_sub_agent("writer", "a line", get_context()))
        try:
            await call_sub_agent("poet", "by its own name")
        except SubAgentNotFoundError as error:
            got.append(str(error))
        return "asked"

    model = ScriptedModel([says("", ToolCall("a", "ask", "{}")), says("done")])
    lead = Agent("lead", model=model, tools=[ask], sub_agents={"writer": poet(says("a verse")), "other": poet()})
    await lead.run_async("?")
    assert got == ["a verse", "no sub-agent 'poet'; registered: writer, other"]


async def test_sub_agent_error_is_reported_to_the_callers_model() -> None:
    lead = Agent(
        "lead",
        model=ScriptedModel([asks("poet"), says("alone then")]),
        sub_agents=[poet(Unavailable("ill"), retries=0)],
    )
    assert await lead.run_async("?") == "alone then"
    assert tool_texts(lead) == ["Error UNAVAILABLE (UNAVAILABLE): ill"]


async def test_cancelling_the_caller_cancels_its_sub_agents() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    lead = Agent("lead", model=ScriptedModel([asks("poet")]), sub_agents=[Agent("poet", model=Slow())])
    run = asyncio.create_task(lead.run_async("?"))
    await asyncio.wait_for(begun.wait(), 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended.is_set()


async def test_pausing_the_caller_pauses_its_sub_agents() -> None:
    model = ScriptedModel([says("a verse")])
    writer = Agent("poet", model=model)
    lead = Agent("lead", model=ScriptedModel([asks("poet"), says("done")]), sub_agents=[writer])
    lead.on("before_tool").handle("continue", effects=lambda hook: hook.agent.pause())
    run = asyncio.create_task(lead.run_async("?"))
    while not lead.paused:  # noqa: ASYNC110 - set by a hook of the agent
        await asyncio.sleep(0)
    await run_ready_tasks()
    assert not model.requests
    lead.resume()
    assert await asyncio.wait_for(run, 60) == "done"


async def test_delegation_loop_and_endless_chain_are_errors() -> None:
    lead, writer = Agent("lead", model=ScriptedModel([asks("poet"), says("done")])), poet(asks("lead"), says("no"))
    lead.register_agent(writer)
    writer.register_agent(lead)
    assert await asyncio.wait_for(lead.run_async("?"), 60) == "done"
    assert "delegation loop: lead waits for this call" in tool_texts(writer)[0]

    class Endless(ScriptedModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            results = [message for message in request.messages if message.role == "tool"]
            return says(results[-1].content) if results else asks("deeper")

    agents = [Agent(f"number {number}", model=Endless()) for number in range(11)]
    for agent, called in itertools.pairwise(agents):
        agent.register_agent(called, name="deeper", stateless=True)
    assert "10 agents wait for each other" in await asyncio.wait_for(agents[0].run_async("?"), 60)


def test_invalid_sub_agent_is_rejected_at_registration() -> None:
    lead = Agent("lead", model=ScriptedModel(), sub_agents={"a": poet()})
    with pytest.raises(AlreadyExists, match="lead already has a sub-agent 'a'"):
        lead.register_agent(poet(), name="a")
    with pytest.raises(NotAnAgent, match="not an agent: 3"):
        lead.register_agent(3)
    with pytest.raises(InvalidArgument, match="cannot be a sub-agent of itself"):
        lead.register_agent(lead)


async def test_decorator_sets_how_instances_appear_as_sub_agents() -> None:
    @subagent("scribe", "Writes it down.", stateless=True)
    class Scribe(Agent):
        pass

    lead = Agent("lead", model=ScriptedModel(), sub_agents=[Scribe("x", model=ScriptedModel())])
    scribe = lead.sub_agents["scribe"]
    assert (scribe.name, scribe.description, scribe.stateless) == ("scribe", "Writes it down.", True)
    assert not hasattr(Agent, "__wrapped__")
    assert Agent.subagent_name == ""


async def test_call_sub_agent_outside_a_run_is_an_error() -> None:
    with pytest.raises(FailedPrecondition):
        await call_sub_agent("a", "?")
