"""The bus of messages in a process: who receives which, once and in order; dead letters; requests."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import DeadlineExceeded, InvalidArgument, NoReceiver, TooManyMessages
from archon.types import HelpRequest, Message, MessageType
from archon_mesh.messages import MessageBus, Subscription
from archon_mesh.messages import bus as bus_module


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def read(inbox: Subscription, count: int) -> list[str]:
    return [(await inbox.next(5)).text for _ in range(count)]


async def test_a_message_goes_to_its_receiver_alone() -> None:
    bus = MessageBus()
    one, two = bus.subscribe("one", "broadcast"), bus.subscribe("two", "broadcast")
    bus.publish(Message("three", "one", content="hello"))
    assert (len(one), len(two)) == (1, 0)
    assert await read(one, 1) == ["hello"]


async def test_topics_without_a_receiver_reach_their_subscribers_once_but_not_the_sender() -> None:
    bus = MessageBus()
    sender, both, errors = (
        bus.subscribe("sender", "broadcast"),
        bus.subscribe("both", "broadcast", "type:error"),
        bus.subscribe("errors", "type:error"),
    )
    bus.publish(Message("sender", content="news"))
    bus.publish(Message("sender", "", MessageType.ERROR, "bad"))
    assert await read(both, 2) == ["news", "bad"]
    assert await read(errors, 1) == ["bad"]
    assert (len(sender), len(both), len(errors)) == (0, 0, 0)


async def test_an_agent_may_subscribe_to_the_messages_of_a_role() -> None:
    bus = MessageBus()
    inboxes = [bus.subscribe(f"writer-{number}", "agent:writer") for number in (1, 2)]
    bus.publish(Message("boss", "writer", content="begin"))
    assert [await read(inbox, 1) for inbox in inboxes] == [["begin"], ["begin"]]


async def test_a_message_with_a_known_id_is_not_delivered_again() -> None:
    bus = MessageBus()
    inbox = bus.subscribe("one")
    first = bus.publish(Message("two", "one", content="hello"))
    bus.publish(first)
    bus.publish(Message("three", "one", content="hello", message_id=first.message_id))
    assert len(inbox) == 2, "ids are unique by sender"


async def test_messages_without_a_reader_are_dead_letters() -> None:
    clock = Clock()
    bus = MessageBus(clock=clock)
    bus.publish(Message("one", content="to all"))
    with pytest.raises(NoReceiver):
        bus.publish(Message("one", "two", content="to an unknown agent"))
    inbox = bus.subscribe("two")
    bus.publish(Message("one", "two", content="stale", ttl=5))
    bus.publish(Message("one", "two", content="fresh", ttl=50))
    clock.now += 6
    assert await read(inbox, 1) == ["fresh"]
    bus.publish(Message("one", "two", content="left"))
    bus.unsubscribe(inbox)
    bus.unsubscribe(inbox)
    assert [(letter.message.content, letter.reason, letter.subscriber) for letter in bus.dead_letters] == [
        ("to all", "no receiver", ""),
        ("to an unknown agent", "no receiver", ""),
        ("stale", "expired", "two"),
        ("left", "unsubscribed", "two"),
    ]
    assert [message async for message in inbox] == [], "the iteration ends"


async def test_a_subscriber_that_does_not_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "MAX_WAITING", 2)
    bus = MessageBus()
    slow, quick = bus.subscribe("slow", "broadcast"), bus.subscribe("quick", "broadcast")
    for number in range(4):
        bus.publish(Message("one", content=f"message {number}"))
        assert await read(quick, 1) == [f"message {number}"]
    assert await read(slow, 2) == ["message 0", "message 1"]
    assert [letter.reason for letter in bus.dead_letters] == ["inbox full"] * 2
    for number in range(2):
        bus.publish(Message("one", "slow", content=f"message {number}"))
    with pytest.raises(TooManyMessages):
        bus.publish(Message("one", "slow", content="one too many"))


async def test_inboxes_are_bounded_in_bytes_and_dead_letters_in_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "MAX_WAITING_BYTES", 100)
    bus = MessageBus()
    inbox = bus.subscribe("one", "broadcast")
    for _ in range(bus_module.MAX_DEAD_LETTERS + 10):
        bus.publish(Message("two", content="x" * 60))
    assert len(inbox) == 1
    assert len(bus.dead_letters) == bus_module.MAX_DEAD_LETTERS


async def test_a_request_gets_its_answer_and_no_other() -> None:
    bus = MessageBus()
    inbox = bus.subscribe("researcher")

    async def research() -> None:
        request = await anext(inbox)
        assert request.typed() == HelpRequest("how old?", "task-1")
        bus.publish(Message("researcher", request.sender_id, content="by the way"))
        bus.reply(request, "researcher", "360")

    researching = asyncio.create_task(research())
    assert (await bus.request_help("task-1", "how old?", "researcher", timeout=5)).content == "360"
    await researching


async def test_a_request_without_an_answer_ends_in_time() -> None:
    bus = MessageBus()
    bus.subscribe("researcher")
    with pytest.raises(DeadlineExceeded, match=r"^no reply came within 0\.01 s$"):
        await bus.request_help("task-1", "how old?", "researcher", timeout=0.01)
    with pytest.raises(NoReceiver):
        await bus.request_help("task-1", "how old?", "stranger", timeout=0.01)


@pytest.mark.parametrize("topic", ["news", "type:gossip", ""])
def test_a_topic_of_another_form_is_refused(topic: str) -> None:
    with pytest.raises(InvalidArgument, match="a topic must be"):
        MessageBus().subscribe("one", topic)


def test_a_content_that_is_not_of_its_type_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        MessageBus().publish(Message("one", "", MessageType.HELP_REQUEST, {"question": "?"}))
