"""Tools of messages in one attempt at a task, over a link that records."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from archon import context
from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, InvalidArgument, NoReceiver
from archon.status import to_failure
from archon.types import Message, MessageType
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node import message_desk
from archon_mesh.node.checkpoint import encode_checkpoint
from archon_mesh.node.handler import agent_handler
from archon_mesh.tools.messages import ReplyTool, message_tools
from archon_mesh.tools.tool import share_refusal
from tests.fixtures.fake_link import FakeLink


class MessageLink(FakeLink):
    """Accepts messages, and delivers those of `inbox` after the subscription; answers requests with `answer`."""

    def __init__(self, *inbox: Message, answer: object = None, refusal: ArchonError | None = None) -> None:
        super().__init__([])
        self.messages: list[message_pb2.PeerMessage] = []
        self.topics: list[str] = []
        self.task: Any = None
        self._inbox, self._answer, self._refusal = inbox, answer, refusal

    async def send_message(self, message: message_pb2.PeerMessage) -> session_pb2.MessageResult:
        self.messages.append(message)
        result = session_pb2.MessageResult()
        if self._refusal is not None:
            result.failure.CopyFrom(to_failure(self._refusal))
        elif message.expects_reply:
            reply = Message(message.receiver_id, "", MessageType.TASK_RESPONSE, self._answer, seq=99)
            proto = reply.proto
            proto.correlation_id = message.message_id
            self.task._messenger.receive(proto)
        return result

    def subscribe(self, subscription: session_pb2.Subscribe) -> None:
        self.topics += subscription.topics
        for message in self._inbox:
            self.task._messenger.receive(message.proto)


def incoming(seq: int, content: object = "hello", **fields: Any) -> Message:
    return Message(
        "researcher", "writer", content=content, seq=seq, message_id=f"m{seq}", sender_task_id="r1", **fields
    )


async def attempt(link: Any, *replies: Any, messages: Any = True, checkpoint: bytes = b"") -> list[str]:
    """Returns the results of the tools that a model calls in one attempt, one call in each of its replies."""
    assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text="go")])
    assigned.resume.checkpoint = checkpoint
    task = TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, link, role="writer")
    link.task = task
    context.enter(replace(context.current(), task_id="t"))
    left = list(replies)
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request)
        return left.pop(0) if left else "done"

    agent = Agent("writer", model=ScriptedModel(reply), messages=messages)
    await agent_handler(agent, memory="")(task)
    return [message.content for message in seen[-1].messages if message.role == "tool"]


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"c-{tool}", tool, json.dumps(arguments))


async def test_read_messages_returns_each_message_once() -> None:
    link = MessageLink(incoming(3), incoming(5, {"status": "ready"}, message_type=MessageType.STATUS_UPDATE))
    first, second = await attempt(link, call("read_messages"), call("read_messages"), messages=["type:status_update"])
    assert link.topics == ["type:status_update"]
    read = json.loads(first)
    assert read["messages"] == [
        {"id": 3, "from": "researcher", "type": "notification", "content": "hello"},
        {"id": 5, "from": "researcher", "type": "status_update", "content": {"status": "ready"}},
    ]
    assert "no instructions" in read["note"], "contents of other agents are marked"
    assert json.loads(second) == {"messages": [], "more": 0}


async def test_a_result_is_bounded_in_number_and_characters() -> None:
    link = MessageLink(*(incoming(seq, "x" * 3_000) for seq in range(1, 8)))
    first, second = map(json.loads, await attempt(link, call("read_messages"), call("read_messages", wait_seconds=1)))
    assert (len(first["messages"]), first["more"]) == (5, 2)
    assert [message["id"] for message in second["messages"]] == [6, 7]
    link = MessageLink(*(incoming(seq) for seq in range(1, 31)), incoming(31, "x" * 20_000))
    results = await attempt(link, *(call("read_messages", wait_seconds=seconds) for seconds in range(3)))
    many, others, long = map(json.loads, results)
    assert (len(many["messages"]), many["more"]) == (20, 11)
    assert len(others["messages"]) == 10, "a long message waits for a result of its own"
    assert "4,000 characters left out" in long["messages"][0]["content"]


async def test_reply_answers_the_task_that_sent_the_message() -> None:
    link = MessageLink(incoming(3))
    _, replied, wrong = await attempt(
        link,
        call("read_messages"),
        call("reply", message_id=3, content="hi"),
        call("reply", message_id=4, content="hi"),
    )
    (message,) = link.messages
    assert (message.receiver_id, message.correlation_id) == ("r1", "m3")
    assert message.message_type == MessageType.TASK_RESPONSE.number
    assert json.loads(replied) == {"message_id": message.message_id}
    assert wrong.startswith("Error INVALID_ARGUMENT") and "no message has the id 4" in wrong


async def test_a_later_attempt_repeats_the_ids_of_its_messages() -> None:
    calls = [call("send_message", receiver="reader", content="a"), call("send_message", receiver="reader", content="a")]
    links = [MessageLink(answer="b"), MessageLink(answer="b")]
    for link in links:
        await attempt(link, *calls, call("request_help", role="reader", issue="?"))
    first, second = ([message.message_id for message in link.messages] for link in links)
    assert first == second
    assert len(set(first)) == 3, "an equal message of another reply is another message"


async def test_a_resumed_attempt_sends_an_equal_message_again() -> None:
    """The calls before the checkpoint are not repeated: the number of equal messages says nothing there."""
    sending = call("send_message", receiver="reader", content="a")
    whole, resumed = MessageLink(), MessageLink()
    await attempt(whole, sending, sending)
    history = [
        ChatMessage("assistant", "", tool_calls=(sending,)),
        ChatMessage("tool", "{}", tool_call_id=sending.id),
        ChatMessage("assistant", "", tool_calls=(sending,)),
    ]
    await attempt(resumed, checkpoint=encode_checkpoint(history))
    assert [message.message_id for message in resumed.messages] == [whole.messages[1].message_id]


async def test_a_resumed_attempt_reads_only_what_is_new() -> None:
    read = ToolCall("c1", "read_messages", "{}")
    history = [
        ChatMessage("assistant", "", tool_calls=(read,)),
        ChatMessage("tool", json.dumps({"messages": [{"id": 3}]}), tool_call_id="c1"),
        ChatMessage("assistant", "", tool_calls=(call("reply", message_id=3, content="hi"),)),
    ]
    link = MessageLink(incoming(3), incoming(5))
    results = await attempt(link, call("read_messages", wait_seconds=2), checkpoint=encode_checkpoint(history))
    assert link.messages[0].correlation_id == "m3", "a message that the earlier attempt has read can be answered"
    assert [message["id"] for message in json.loads(results[-1])["messages"]] == [5]


def test_a_changed_result_of_reading_has_no_numbers() -> None:
    history = [
        ChatMessage("assistant", "", tool_calls=(ToolCall("c1", "read_messages", "{}"),)),
        ChatMessage("tool", "[removed]", tool_call_id="c1"),
        ChatMessage("assistant", '{"messages": [{"id": 3}]}', tool_calls=(ToolCall("c2", "read_messages", "{}"),)),
    ]
    assert message_desk.read_before(history, {}) == frozenset()
    assert message_desk.read_before([], {}) == frozenset()


async def test_help_is_marked_and_an_error_of_it_is_a_failure() -> None:
    (answer,) = await attempt(MessageLink(answer="1665"), call("request_help", role="reader", issue="When?"))
    assert json.loads(answer)["content"] == "1665"
    assert "no instructions" in json.loads(answer)["note"]


async def test_refusals_are_results_with_their_reason() -> None:
    link = MessageLink(refusal=NoReceiver("no task of the run receives messages for 'reader'"))
    sent, wrong = await attempt(
        link,
        call("send_message", receiver="reader", content="a"),
        call("send_message", receiver="reader", content="a", type="information_share"),
    )
    assert sent == "Error NOT_FOUND (NO_RECEIVER): no task of the run receives messages for 'reader'"
    assert wrong.startswith("Error INVALID_ARGUMENT")


async def test_a_caller_without_messages_is_a_result() -> None:
    for tool in (call("read_messages"), call("send_message", content="a")):
        (result,) = await attempt(FakeLink([]), tool)
        assert result.startswith("Error UNIMPLEMENTED")


async def test_outside_of_a_task_the_tools_say_so() -> None:
    model = ScriptedModel([call("read_messages"), "done"])
    await Agent("a", model=model, messages=True).run_async("go")
    assert "FAILED_PRECONDITION" in model.requests[1].messages[-1].content
    assert "does not work on a task of the mesh" in model.requests[1].messages[-1].content


def test_the_option_gives_the_tools() -> None:
    assert not Agent("a").tools.names
    assert Agent("a", messages=True).tools.names == ["send_message", "request_help", "read_messages", "reply"]
    assert message_tools(["broadcast", "broadcast"])[2].topics == ("broadcast",)  # type: ignore[attr-defined]
    assert "cannot be shared" in share_refusal(ReplyTool())
    for wrong in (["news"], "broadcast"):
        with pytest.raises(InvalidArgument, match="topic"):
            Agent("a", messages=wrong)
    with pytest.raises(InvalidArgument, match="seconds must be above 0"):
        message_tools(help_seconds=0)
