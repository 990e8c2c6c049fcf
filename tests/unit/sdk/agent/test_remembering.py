"""Stateful roles: the history that a task receives, and the turn that its answer adds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from archon.agent import Answer, HistoryMessage, Question, TaskContext
from archon.agent.history import MAX_CHARS, turn_to_proto
from archon.agent.result import to_result
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import FrameTooLarge
from archon.types.part import json_part
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from archon_mesh.node.session_history import MAX_TURN_CHARS, MESSAGE_KEY, TurnRecorder, load_history
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.scripted_model import says


def task_of(
    text: str = "And now?",
    history: Sequence[agent_pb2.HistoryMessage] = (),
    *,
    session: str = "s",
    stateful: bool = True,
) -> TaskContext:
    assigned = agent_pb2.AssignTask(
        input=[common_pb2.Part(text=text)],
        conversation_id=f"{session}/clerk" if session else "",
        conversation_version=3,
        history=history,
    )
    ref = common_pb2.TaskRef(task_id="t", run_id="r", attempt=1, epoch=1)
    return TaskContext.from_proto(ref, assigned, FakeLink([]), role="clerk", stateful=stateful)


def turn_of(result: agent_pb2.TaskResult) -> list[tuple[str, str]]:
    return [(message.role, message.parts[0].text) for message in result.new_history]


def test_a_plain_answer_adds_the_question_and_the_answer() -> None:
    result = to_result(task_of(), "Noon.")
    assert turn_of(result) == [("user", "And now?"), ("assistant", "Noon.")]
    assert result.conversation_version == 3


def test_an_answer_may_set_its_own_turn_or_an_empty_one() -> None:
    result = to_result(task_of(), Answer("Noon.", new_history=[HistoryMessage("assistant", "12 o'clock")]))
    assert turn_of(result) == [("assistant", "12 o'clock")]
    assert not to_result(task_of(), Answer("Noon.", new_history=[])).new_history


@pytest.mark.parametrize("task", [task_of(session=""), task_of(stateful=False)])
def test_an_answer_adds_history_only_in_a_stateful_session(task: TaskContext) -> None:
    result = to_result(task, Answer("Noon.", new_history=[HistoryMessage("user", "x")]))
    assert not result.new_history and not result.conversation_version


def test_a_question_adds_nothing_yet() -> None:
    assert not to_result(task_of(), Question("which?")).new_history


def test_of_a_long_question_or_answer_the_middle_is_left_out() -> None:
    (_, question), (_, answer) = turn_of(to_result(task_of("q" * 300_000), "a" * 300_000))
    assert len(question) < MAX_CHARS + 100 and "240,000 characters left out" in question
    assert answer.startswith("aaa") and answer.endswith("aaa")
    assert turn_to_proto([HistoryMessage("user", "\N{GRINNING FACE}" * MAX_CHARS)] * 2), "characters count, not bytes"


def test_an_own_turn_that_is_too_long_is_a_typed_error() -> None:
    with pytest.raises(FrameTooLarge, match="600,"):
        to_result(task_of(), Answer("", new_history=[HistoryMessage("user", "x" * 600_000)]))


async def test_an_agent_continues_its_history_and_adds_its_turn() -> None:
    def clock() -> str:
        """Returns the time."""
        return "noon"

    model = ScriptedModel([says("", ToolCall("c1", "clock", "{}")), says("It is noon.")])
    agent = Agent("clerk", system_prompt="You serve.", model=model, tools=[clock])
    before = [
        agent_pb2.HistoryMessage(role="user", parts=[common_pb2.Part(text="Hello.")]),
        agent_pb2.HistoryMessage(role="assistant", parts=[common_pb2.Part(text="Good day.")]),
    ]
    answer = await agent_handler(agent, memory="")(task_of(history=before))
    messages = [(message.role, message.content) for message in model.requests[0].messages]
    assert messages == [("system", "You serve."), ("user", "Hello."), ("assistant", "Good day."), ("user", "And now?")]
    assert isinstance(answer, Answer)
    assert answer.new_history is not None
    assert [message.role for message in answer.new_history] == ["user", "assistant", "tool", "assistant"]

    again = task_of("Thanks.", turn_to_proto(answer.new_history))
    restored = load_history(again, TurnRecorder(), "clerk")
    assert restored[1].tool_calls == (ToolCall("c1", "clock", "{}"),)
    assert (restored[2].tool_call_id, restored[2].content) == ("c1", "noon")
    assert [message.content for message in agent.history] == [], "the history is kept by the mesh, not by the agent"


async def test_concurrent_tasks_of_two_sessions_share_nothing() -> None:
    agent = Agent("clerk", model=ScriptedModel([says("A."), says("B.")]))
    handler = agent_handler(agent, memory="")
    answers = await asyncio.gather(*(handler(task_of(text)) for text in ("a?", "b?")))
    turns = [[message.text for message in answer.new_history or ()] for answer in answers if isinstance(answer, Answer)]
    assert sorted(turns) == [["a?", "A."], ["b?", "B."]]


async def test_without_a_session_an_agent_adds_no_history() -> None:
    answer = await agent_handler(Agent("clerk", model=ScriptedModel([says("A.")])), memory="")(task_of(session=""))
    assert isinstance(answer, Answer)
    assert answer.new_history is None


def test_a_too_large_turn_is_kept_as_question_and_answer() -> None:
    recorder = TurnRecorder()
    recorder.appended("k", "r", [ChatMessage("user", "q"), ChatMessage("tool", "x" * MAX_TURN_CHARS, tool_call_id="c")])
    assert recorder.new_messages() is None
    assert TurnRecorder().new_messages() is None


def test_a_rolled_back_run_leaves_no_history() -> None:
    recorder = TurnRecorder()
    history = load_history(task_of(), recorder, "clerk")
    history.update_context("one")
    history.append(ChatMessage("user", "first"))
    history.replace_all([ChatMessage("system", "a summary")])
    history.update_context("two")
    history.append(ChatMessage("user", "second"))
    history.undo("two")
    assert [message.text for message in recorder.new_messages() or ()] == ["first"]


def test_a_message_of_another_form_is_read_as_text() -> None:
    odd = [
        agent_pb2.HistoryMessage(role="oracle", parts=[common_pb2.Part(text="hm")], metadata={MESSAGE_KEY: "{no json"}),
        agent_pb2.HistoryMessage(role="assistant", parts=[common_pb2.Part(text="so")], metadata={MESSAGE_KEY: "[]"}),
    ]
    messages = load_history(task_of(history=odd), TurnRecorder(), "clerk")
    assert [(message.role, message.content) for message in messages] == [("user", "hm"), ("assistant", "so")]


def test_json_of_an_earlier_turn_is_its_text() -> None:
    parts = [json_part("[1]").proto, common_pb2.Part(url="https://example.com/")]
    (message,) = task_of(history=[agent_pb2.HistoryMessage(role="assistant", parts=parts)]).history
    assert (message.text, [part.url for part in message.parts]) == ("[1]", ["https://example.com/"])


def test_turn_of_a_typed_answer_has_its_json() -> None:
    result = to_result(task_of(), Answer(parts=[json_part('{"a":1}')]))
    assert turn_of(result) == [("user", "And now?"), ("assistant", '{"a":1}')]
