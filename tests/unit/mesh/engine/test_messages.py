"""Messages between the tasks of a run: who receives which, in what order, and which are refused."""

from __future__ import annotations

import random

import pytest

from archon_mesh.engine import ConfirmMessage, Deliver
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import messages
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.types import TaskState
from tests.unit.mesh.engine.lead_run import Lead


class Talk(Lead):
    """Roles without dependencies, all of them at work: task r.N has the N-th role."""

    def __init__(self, *roles: str) -> None:
        super().__init__(roles)
        self.place(*range(1, len(roles) + 1))

    def send(
        self,
        number: int,
        receiver: str = "",
        name: str = "m",
        type: str = "notification",
        *,
        sequence: int = 0,
        size: int = 10,
        ttl: float = 0.0,
        forbidden: str = "",
        expects_reply: bool = False,
    ) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        at = sequence or task.applied + 1
        return self.feed(
            inp.SendIn(
                task.task_id,
                task.attempt,
                at,
                name,
                receiver,
                type,
                "",
                ttl,
                size,
                forbidden,
                expects_reply,
                0,
                "hello",
            )
        )

    def subscribe(self, number: int, *topics: str) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        return self.feed(inp.SubscribeIn(task.task_id, task.attempt, task.applied + 1, topics))

    def inbox(self, number: int) -> list[str]:
        """The ids of the messages that the attempt is sent, in order."""
        delivered = sorted(effect.seq for effect in self.opened(Deliver) if effect.task_id == f"r.{number}")
        return [self.state.messages[seq].message_id for seq in delivered]


@pytest.mark.parametrize("receiver", ["b", "r.2"])
def test_a_message_for_a_role_or_a_task_goes_to_it_alone(receiver: str) -> None:
    run = Talk("a", "b", "c")
    for number in (1, 2, 3):
        run.subscribe(number, "broadcast")
    run.send(1, receiver)
    assert [run.inbox(number) for number in (1, 2, 3)] == [[], ["m"], []]


def test_a_message_without_a_receiver_goes_to_the_subscribers_of_its_topics_except_its_sender() -> None:
    run = Talk("a", "b", "c", "d")
    run.subscribe(1, "broadcast")
    run.subscribe(2, "broadcast")
    run.subscribe(3, "type:error")
    run.subscribe(4)
    run.send(1, name="news")
    run.send(1, name="bad", type="error")
    assert [run.inbox(number) for number in (1, 2, 3, 4)] == [[], ["news", "bad"], ["bad"], []]


def test_a_message_that_matches_two_topics_is_delivered_once() -> None:
    run = Talk("a", "b")
    run.subscribe(2, "broadcast", "type:notification")
    run.send(1)
    assert len(run.opened(Deliver)) == 1


def test_an_attempt_that_has_not_subscribed_receives_nothing_until_it_does() -> None:
    run = Talk("a", "b")
    run.send(1, "b", "early")
    assert run.inbox(2) == []
    run.subscribe(2)
    run.send(1, "b", "late")
    assert run.inbox(2) == ["early", "late"]


def test_a_task_receives_what_was_sent_before_it_began() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"),))
    run.place(1)
    run.feed(inp.SendIn("r.1", 1, 1, "m", "b", "notification"))
    run.result(1)
    run.place(2)
    run.feed(inp.SubscribeIn("r.2", 1, 1))
    assert [effect.task_id for effect in run.opened(Deliver)] == ["r.2"]


def test_the_next_attempt_receives_all_messages_again_once_it_has_subscribed() -> None:
    run = Talk("a", "b")
    run.subscribe(2)
    for name in ("one", "two"):
        run.send(1, "b", name)
    run.lose(2)
    assert run.inbox(2) == []
    run.place(2)
    assert run.inbox(2) == []
    run.subscribe(2)
    assert run.inbox(2) == ["one", "two"]
    assert {effect.attempt for effect in run.opened(Deliver)} == {2}


def test_a_message_that_a_later_attempt_sends_again_is_not_sent_twice() -> None:
    run = Talk("a", "b")
    run.subscribe(2)
    run.send(1, "b")
    first = run.state.last_seq
    run.lose(1)
    run.place(1)
    (event,) = run.send(1, "b")
    assert isinstance(event, ev.MessageSent)
    assert event.first_seq == first
    assert event.payload is None
    assert run.inbox(2) == ["m"]
    (effect,) = run.opened(ConfirmMessage)
    assert effect.attempt == 2, "it is confirmed all the same"


def test_two_senders_may_use_the_same_id() -> None:
    run = Talk("a", "b", "c")
    run.subscribe(3)
    run.send(1, "c")
    run.send(2, "c")
    assert run.inbox(3) == ["m", "m"]


def test_a_frame_that_comes_again_changes_nothing() -> None:
    run = Talk("a", "b")
    run.send(1, "b", "one", sequence=1)
    assert run.send(1, "b", "two", sequence=1) == []


def test_later_subscriptions_add_topics_from_their_first_message_on() -> None:
    run = Talk("a", "b")
    run.send(1, "b", "mine")
    run.send(1, name="bad", type="error")
    run.subscribe(2)
    assert run.inbox(2) == ["mine"]
    run.subscribe(2, "type:error")
    assert run.inbox(2) == ["mine", "bad"]
    assert run.subscribe(2, "type:error") == [], "it adds nothing"


def test_an_attempt_has_a_bounded_number_of_topics() -> None:
    run = Talk("a", "b")
    run.subscribe(2, *map(str, range(messages.MAX_TOPICS)))
    assert run.subscribe(2, "broadcast") == []


def test_a_message_that_expects_a_reply_needs_a_receiver_that_reads() -> None:
    run = Talk("a", "b")
    assert refused(run, run.send(1, "b", expects_reply=True)) == "NO_RECEIVER"
    run.subscribe(2)
    (event,) = run.send(1, "b", "m2", expects_reply=True)
    assert isinstance(event, ev.MessageSent)
    assert event.failure is None


def test_a_message_without_a_receiver_is_refused_to_later_attempts_too() -> None:
    """The sender has decided by it, such as to delegate instead."""
    run = Talk("a", "b")
    run.send(1, "b", expects_reply=True)
    run.subscribe(2)
    run.lose(1)
    run.place(1)
    assert refused(run, run.send(1, "b", expects_reply=True)) == "NO_RECEIVER"


def refused(run: Talk, events: list[ev.Event]) -> str:
    """The reason of a refused message, which its sender receives."""
    (event,) = events
    assert isinstance(event, ev.MessageSent)
    assert event.failure is not None
    assert event.message_id in [
        run.state.tasks[effect.task_id].replies[effect.seq][0] for effect in run.opened(ConfirmMessage)
    ]
    return event.failure.reason


def test_a_message_that_no_task_receives_is_refused() -> None:
    run = Talk("a", "b")
    assert refused(run, run.send(1, "stranger")) == "NO_RECEIVER"
    assert refused(run, run.send(1, "a", "m2")) == "NO_RECEIVER", "it has no other task"
    run.result(2)
    assert refused(run, run.send(1, "b", "m3")) == "NO_RECEIVER", "its task is over"
    assert not run.state.messages
    assert {event.payload for event in run.log if isinstance(event, ev.MessageSent)} == {"hello"}, "it can be read"


def test_a_message_that_a_profile_forbids_is_refused() -> None:
    run = Talk("a", "b")
    assert refused(run, run.send(1, "b", forbidden="the profile of b allows no errors from a")) == "MESSAGE_NOT_ALLOWED"


def test_a_refused_message_may_be_sent_again() -> None:
    run = Talk("a", "b")
    run.send(1, "b", forbidden="not now")
    run.lose(1)
    run.place(1)
    assert not run.opened(ConfirmMessage), "the next attempt does not hear of it"
    (event,) = run.send(1, "b")
    assert isinstance(event, ev.MessageSent)
    assert event.failure is None


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MAX_MESSAGES", "TOO_MANY_MESSAGES"),
        ("MAX_MESSAGES_BYTES", "TOO_MANY_MESSAGES"),
        ("MAX_MESSAGE_BYTES", "INVALID_ARGUMENT"),
    ],
)
def test_messages_are_bounded_in_count_and_bytes(limit: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, limit, 100)
    run = Talk("a", "b")
    run.send(1, "stranger", "lost", size=1)
    sizes = {"MAX_MESSAGES": [1] * 100, "MAX_MESSAGES_BYTES": [50, 49], "MAX_MESSAGE_BYTES": [100, 100]}[limit]
    for number, size in enumerate(sizes):
        (event,) = run.send(1, "b", f"m{number}", size=size)
        assert isinstance(event, ev.MessageSent)
        assert event.failure is None
    assert refused(run, run.send(1, "b", "last", size=101 if limit == "MAX_MESSAGE_BYTES" else 1)) == reason


def test_a_message_expires_after_its_time_to_live() -> None:
    run = Talk("a", "b")
    run.send(1, "b", ttl=2.5)
    (message,) = run.state.messages.values()
    assert [message.is_expired(run.now + 2.5), message.is_expired(run.now + 2.6)] == [False, True]
    run.send(1, "b", "for ever")
    assert not list(run.state.messages.values())[1].is_expired(run.now + 1e9)


def test_messages_of_a_run_that_ends_or_of_an_attempt_that_stops_are_dropped() -> None:
    run = Talk("a", "b")
    run.feed(inp.Cancel("me", ""))
    assert run.send(1, "b") == []
    assert run.subscribe(2) == []


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_a_restart_finds_the_effects_that_were_open_and_each_inbox_is_in_order(seed: int) -> None:
    """`checked_step` compares the effects of each step with those of a restart."""
    pick = random.Random(seed)
    roles = ("a", "b", "b", "c")
    run = Talk(*roles)
    for number in range(80):
        target = pick.randint(1, len(roles))
        task = run.state.tasks[f"r.{target}"]
        match pick.choice(("send", "send", "send", "subscribe", "lose", "result", "claim")):
            case "send" if task.live:
                receiver = pick.choice(("", "a", "b", "c", "r.1", "stranger"))
                run.send(target, receiver, f"m{pick.randint(1, 40)}", pick.choice(("error", "notification")))
            case "subscribe" if task.live:
                run.subscribe(target, *pick.sample(("broadcast", "type:error"), pick.randint(0, 2)))
            case "lose" if task.live and task.losses < 2:
                run.lose(target)
                run.after(60.0)
                run.place(target)
            case "result" if number > 60 and task.live:
                run.result(target)
            case "claim":
                run.feed(inp.Claim("o", run.state.epoch + 1))
    again = fold((event, run.now) for event in run.log)
    assert again.messages.keys() == run.state.messages.keys()
    assert [task.topics for task in again.tasks.values()] == [task.topics for task in run.state.tasks.values()]
    for task in run.state.tasks.values():
        if task.live and task.topics is not None:
            expected = [
                message.message_id
                for message in run.state.messages.values()
                if message.task_id != task.task_id
                and (
                    message.receiver in (task.role, task.task_id)
                    if message.receiver
                    else {"broadcast", f"type:{message.type}"} & set(task.topics)
                )
            ]
            assert run.inbox(int(task.task_id[2:])) == expected
    assert {task.state for task in run.state.tasks.values()} <= {
        TaskState.WORKING,
        TaskState.COMPLETED,
        TaskState.SUBMITTED,
    }
