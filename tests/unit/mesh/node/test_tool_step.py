"""A step that is a call of one tool: called directly if its arguments are complete."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon.agent import Answer, Question, TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, Unavailable
from archon.failure_kinds import RetryAdvice
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import agent_handler
from archon_mesh.tools import ToolResult, tool
from archon_mesh.tools.people.ask import ask_person
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.scripted_model import says


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
def send(text: str) -> None:
    """Sends a text."""


@tool(retries=1)
def look(place: str) -> str:
    """Looks at a place."""
    raise Unavailable("the camera is off")


@tool
def pay(amount: int) -> str:
    """Pays."""
    raise Unavailable("the bank is closed")


@tool
def book(hotel: str) -> ToolResult:
    """Books a hotel."""
    return ToolResult.error(f"{hotel} is booked out")


class Step:
    """A step of an agent with these tools."""

    def __init__(self, name: str, arguments: Any, *replies: str | ToolCall) -> None:
        self.model = ScriptedModel([says(reply) if isinstance(reply, str) else says("", reply) for reply in replies])
        self.sent: list[session_pb2.AgentFrame] = []
        agent = Agent("worker", model=self.model, tools=[add, send, look, pay, book], retries=0)
        assigned = agent_pb2.AssignTask(
            input=[common_pb2.Part(text="Do it.")], allowed_tools=[name], tool_args_json=json.dumps(arguments)
        )
        ref = common_pb2.TaskRef(task_id="t", attempt=1)
        self._run = agent_handler(agent)(TaskContext.from_proto(ref, assigned, FakeLink(self.sent), role="worker"))

    async def answer(self) -> str:
        answer = await self._run
        assert isinstance(answer, Answer)
        return answer.text


async def test_a_tool_with_its_arguments_is_called_without_a_model() -> None:
    step = Step("add", {"a": 15, "b": 24})
    assert await step.answer() == "39"
    assert step.model.requests == []
    tools = [frame.progress.tool_event for frame in step.sent if frame.progress.HasField("tool_event")]
    assert [event.tool_name for event in tools] == ["add", "add"], "its watchers see the call and the result"


async def test_a_tool_that_returns_nothing_is_done() -> None:
    assert await Step("send", {"text": "x"}).answer() == "done"


@pytest.mark.parametrize("arguments", [{"a": 15}, {"a": "many", "b": 1}, [], {"a": 1, "b": 2, "c": 3}])
async def test_a_model_completes_arguments_that_are_not(arguments: Any) -> None:
    step = Step("add", arguments, ToolCall("1", "add", '{"a": 15, "b": 24}'), "39, then")
    assert await step.answer() == "39, then"
    assert [spec.name for spec in step.model.requests[0].tools] == ["add"]


async def test_a_failure_of_a_tool_that_acts_advises_no_retry() -> None:
    with pytest.raises(Unavailable, match="the bank is closed") as caught:
        await Step("pay", {"amount": 1}).answer()
    assert caught.value.retry is RetryAdvice.NEVER


async def test_a_failure_of_a_tool_that_may_repeat_keeps_its_advice() -> None:
    with pytest.raises(Unavailable) as caught:
        await Step("look", {"place": "Rome"}).answer()
    assert caught.value.retry is not RetryAdvice.NEVER


async def test_an_error_that_a_tool_returns_fails_the_step() -> None:
    with pytest.raises(ArchonError, match="booked out") as caught:
        await Step("book", {"hotel": "Plaza"}).answer()
    assert caught.value.retry is RetryAdvice.NEVER


async def test_a_tool_that_asks_a_person_ends_the_attempt() -> None:
    calls: list[str] = []

    @tool
    async def publish(page: str) -> str:
        """Publishes a page."""
        calls.append(page)
        return (await ask_person(f"Publish {page}?")).text

    agent = Agent("worker", model=ScriptedModel([]), tools=[publish])
    assigned = agent_pb2.AssignTask(
        input=[common_pb2.Part(text="Do it.")], allowed_tools=["publish"], tool_args_json='{"page": "home"}'
    )
    link = FakeLink([])
    handler = agent_handler(agent)
    question = await handler(
        TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, link, role="worker")
    )
    assert isinstance(question, Question)
    assert (question.text, calls) == ("Publish home?", ["home"])
    assigned.resume.checkpoint = question.checkpoint
    assigned.resume.answers.add(input_id=question.input_id, parts=[common_pb2.Part(text="not today")])
    answer = await handler(
        TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=2), assigned, link, role="worker")
    )
    assert isinstance(answer, Answer)
    assert answer.text == "not today"
