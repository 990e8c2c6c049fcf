"""Runs of several tasks, and of agents with models, for front ends that speak AG-UI."""

from __future__ import annotations

import asyncio
import json

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon_mesh.agent.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.core.people import Condition, InterceptionRule, Trigger
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node.handler import agent_handler
from tests.fixtures.agui_mesh import follow_up, front_end, input_of, resume, user
from tests.fixtures.http_gateway import OPERATOR
from tests.integration.services.gateway.agui.conftest import Studio


async def _lead(task: TaskContext) -> str:
    words = task.text.rpartition("\n")[2].split(", ")
    answers = await asyncio.gather(*(task.delegate(word, role="painter") for word in words))
    return " and ".join(answer.text for answer in answers)


def _leader(settings: AgentSettings) -> AgentServer:
    return AgentServer("leader", handler=_lead, coordinator=True, max_tasks=5, settings=settings)


async def test_delegated_tasks_are_sub_agents(studio: Studio) -> None:
    async with _leader(studio.mesh.mesh.agent_settings()), front_end(studio.mesh, OPERATOR, "/agui/leader") as ui:
        source = input_of(user("one, fail"))
        stream = await ui.run(source)
        old = await ui.run({**source, "protocolVersion": None})
    begun = stream.all("SUBAGENT_STARTED")
    assert [event["name"] for event in begun] == ["painter", "painter"]
    assert {event["subagentRunId"] for event in begun} == {
        event["subagentRunId"] for event in stream.events if event["type"] in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR")
    }
    [text] = [event for event in stream.all("TEXT_MESSAGE_START") if event["name"] == "painter"]
    assert text["subagentRunId"] in {event["subagentRunId"] for event in begun}
    assert stream.outcome == old.outcome and stream.last["type"] == "RUN_ERROR"
    assert len(old.all("STEP_STARTED")) == 3  # names of steps are unique without sub-agents, too


async def test_all_questions_of_a_run_are_answered_at_once(studio: Studio) -> None:
    source = input_of(user("ask for one, form for two"))
    async with _leader(studio.mesh.mesh.agent_settings()), front_end(studio.mesh, OPERATOR, "/agui/leader") as ui:
        asked = await ui.run(source)
        by_text = {interrupt["message"]: interrupt for interrupt in asked.interrupts}
        colour, size = by_text["Which colour?"], by_text["Which size?"]
        suspended = {event["subagentRunId"]: event["outcome"] for event in asked.all("SUBAGENT_FINISHED")}
        assert suspended[colour["subagentRunId"]] == {"type": "suspended", "interruptIds": [colour["id"]]}
        half = await ui.run(follow_up(source, resume=resume([colour], "blue")))
        assert half.outcome == "INTERRUPTS_PENDING"
        twice = await ui.http.post("/agui/leader", json=follow_up(source, resume=resume([colour] * 2, "a", "b")))
        assert twice.status_code == 400
        done = await ui.run(follow_up(source, resume=resume([colour, size], "blue", {"size": 2})))
    assert done.last["result"] == 'painted blue and size {"size": 2}'
    assert not done.all("TOOL_CALL_START")


async def test_an_approval_of_a_tool_names_its_call(studio: Studio) -> None:
    def pay(amount: int) -> str:
        """Pays an amount."""
        return f"paid {amount}"

    def reply(request: ModelRequest) -> str | list[ToolCall]:
        results = [message.content for message in request.messages if message.role == "tool"]
        return "; ".join(results) if results else [ToolCall("c1", "pay", '{"amount": 5}')]

    rule = InterceptionRule(Trigger.TOOL, Condition(tool="pay"), name="payments")
    agent = Agent("payer", model=ScriptedModel(reply), tools=[pay], rules=[rule])
    settings = studio.mesh.mesh.agent_settings()
    source = input_of(user("pay it"))
    async with (
        AgentServer("payer", handler=agent_handler(agent, memory=""), settings=settings),
        front_end(studio.mesh, OPERATOR, "/agui/payer") as ui,
    ):
        asked = await ui.run(source)
        [interrupt] = asked.interrupts
        [call] = asked.all("TOOL_CALL_START")
        assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", call["toolCallId"])
        assert json.loads(asked.all("TOOL_CALL_ARGS")[0]["delta"]) == {"amount": 5}
        assert not asked.all("TOOL_CALL_RESULT")
        messages = asked.all("MESSAGES_SNAPSHOT")[-1]["messages"]
        payload = {"approved": True, "editedArgs": {"amount": 4}}
        done = await ui.run(follow_up(source, messages=messages, resume=resume([interrupt], payload)))
    assert not done.all("TOOL_CALL_START")  # it is the call of the run before
    [result] = done.all("TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "paid 4")
    assert done.texts == ["paid 4"]


async def test_the_roles_before_the_last_one_are_sub_agents(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    from archon.client import Client
    from archon.strategy_choice import StrategyChoice

    async def chosen(*_: object, **__: object) -> StrategyChoice:
        return StrategyChoice("pipeline", ("sketcher", "finisher"), "as the test says")

    monkeypatch.setattr(Client, "choose_strategy", chosen)
    settings = studio.mesh.mesh.agent_settings
    async with (
        studio.painter.server(studio.mesh, "sketcher"),
        AgentServer("finisher", handler=_finish, depends_on=["sketcher"], settings=settings()),
        front_end(studio.mesh, OPERATOR, "/agui") as ui,
    ):
        stream = await ui.run(input_of(user("paint")))
    assert [event["name"] for event in stream.all("SUBAGENT_STARTED")] == ["sketcher"]
    assert stream.texts == ["did: paint", "finished"]
    assert (stream.last["result"], "subagentRunId" in stream.all("TEXT_MESSAGE_START")[1]) == ("finished", False)


async def _finish(task: TaskContext) -> str:
    return "finished"
