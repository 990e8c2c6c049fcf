"""An agent's tool ends its attempt with a question, and another attempt goes on after the answer."""

from __future__ import annotations

from typing import Any

import pytest

from archon.agent import Answer, Question, TaskContext
from archon.agent.result import to_result
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.errors import FrameTooLarge
from archon_mesh.agent.agent import Agent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.people import Condition, InterceptionRule, Trigger
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node.checkpoint import (
    MAX_QUESTION_CHECKPOINT,
    OpenCalls,
    decode_open_calls,
    encode_question_checkpoint,
)
from archon_mesh.node.handler import agent_handler
from archon_mesh.tools.people import HumanGuidanceTool, ask_person
from archon_mesh.tools.result import ToolResult
from tests.fixtures.fake_link import FakeLink


class Clerk:
    """An agent that calls the tools `note` and `pay` in one reply. `pay` needs approval, or asks by itself."""

    def __init__(self, *calls: ToolCall, rules: bool = True) -> None:
        self.log: list[str] = []
        self.models = 0
        self._calls = calls or (ToolCall("c1", "note", "{}"), ToolCall("c2", "pay", '{"amount": 5}'))
        self._rules = [InterceptionRule(Trigger.TOOL, Condition(tool="pay"), name="pay")] if rules else []

    def agent(self) -> Agent:
        def note() -> str:
            """Notes."""
            self.log.append("note")
            return "noted"

        def pay(amount: int) -> str:
            """Pays."""
            self.log.append(f"pay {amount}")
            return f"paid {amount}"

        async def survey() -> str:
            """Asks twice."""
            first = await ask_person("Your name?")
            second = await ask_person(f"Your age, {first.text}?")
            return f"{first.text} is {second.text}"

        tools: list[Any] = [note, pay, survey, HumanGuidanceTool()]
        return Agent("clerk", model=ScriptedModel(self._reply), tools=tools, rules=self._rules)

    def _reply(self, request: ModelRequest) -> str | tuple[ToolCall, ...]:
        self.models += 1
        results = [message.content for message in request.messages if message.role == "tool"]
        return "; ".join(results) if results else self._calls

    async def attempt(self, number: int, before: agent_pb2.TaskResult | None = None, *answers: Any) -> Any:
        """Runs an attempt, with a new agent, as in another process. `answers` are pairs of question and answer."""
        assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text="go")])
        if before is not None:
            assigned.resume.checkpoint = before.checkpoint
        for input_id, text, decision in answers:
            assigned.resume.answers.add(input_id=input_id, parts=[common_pb2.Part(text=text)], decision=decision)
        sent: list[session_pb2.AgentFrame] = []
        task = TaskContext.from_proto(
            common_pb2.TaskRef(task_id="t", attempt=number), assigned, FakeLink(sent), role="clerk"
        )
        returned = await agent_handler(self.agent(), memory="")(task)
        return to_result(task, returned) if isinstance(returned, Question) else returned


APPROVED, REJECTED, INPUT = question_pb2.DECISION_APPROVE, question_pb2.DECISION_REJECT, 0


async def test_a_question_ends_the_attempt_after_the_other_calls() -> None:
    clerk = Clerk()
    asked = await clerk.attempt(1)
    assert asked.state == common_pb2.TASK_STATE_INPUT_REQUIRED
    request = asked.input_request
    assert (request.input_id, request.kind, request.terms.rule) == ("t1", question_pb2.QUESTION_KIND_APPROVAL, "pay")
    assert clerk.log == ["note"], "the call without a question has ended"
    answer = await clerk.attempt(2, asked, ("t1", "", APPROVED))
    assert isinstance(answer, Answer)
    assert (answer.text, clerk.log, clerk.models) == ("noted; paid 5", ["note", "pay 5"], 2)


async def test_an_attempt_without_the_answer_asks_the_same_again() -> None:
    clerk = Clerk()
    asked = await clerk.attempt(1)
    again = await clerk.attempt(2, asked)
    assert (again.input_request.input_id, clerk.log, clerk.models) == ("t1", ["note"], 1)


async def test_questions_of_several_calls_are_asked_one_by_one() -> None:
    clerk = Clerk(ToolCall("a", "pay", '{"amount": 1}'), ToolCall("b", "pay", '{"amount": 2}'))
    first = await clerk.attempt(1)
    second = await clerk.attempt(2, first, ("t1", "", APPROVED))
    assert (second.input_request.input_id, clerk.log) == ("t2", ["pay 1"])
    answer = await clerk.attempt(3, second, ("t1", "", APPROVED), ("t2", "", APPROVED))
    assert (answer.text, clerk.log, clerk.models) == ("paid 1; paid 2", ["pay 1", "pay 2"], 2)


async def test_a_tool_that_asks_twice_gets_both_answers() -> None:
    clerk = Clerk(ToolCall("a", "survey", "{}"))
    first = await clerk.attempt(1)
    second = await clerk.attempt(2, first, ("t1", "Ann", INPUT))
    assert second.input_request.prompt[0].text == "Your age, Ann?"
    answer = await clerk.attempt(3, second, ("t1", "Ann", INPUT), ("t2", "40", INPUT))
    assert answer.text == "Ann is 40"


async def test_a_guidance_tool_gets_its_answer_later() -> None:
    clerk = Clerk(ToolCall("a", "human_guidance", '{"question": "Which?"}'))
    asked = await clerk.attempt(1)
    assert asked.input_request.terms.timeout.seconds == 300
    answer = await clerk.attempt(2, asked, ("t1", "this", INPUT))
    assert answer.text == "this"


def test_open_calls_survive_their_encoding() -> None:
    messages = [ChatMessage("assistant", "", tool_calls=(ToolCall("c", "x", "{}"),))]
    calls = OpenCalls(3, {0: ToolResult("text"), 2: ToolResult.error("no", {"code": "NOT_FOUND"})}, {1: ["t1", "t3"]})
    assert decode_open_calls(encode_question_checkpoint(messages, calls)) == calls
    assert decode_open_calls(b"something else") == OpenCalls()


def test_a_checkpoint_that_is_too_large_is_refused() -> None:
    messages = [ChatMessage("assistant", "x" * MAX_QUESTION_CHECKPOINT, tool_calls=(ToolCall("c", "x", "{}"),))]
    with pytest.raises(FrameTooLarge):
        encode_question_checkpoint(messages, OpenCalls())
