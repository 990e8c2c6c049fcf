"""Messages between the agents of the simulation; and lines 32 to 34 of docs/durability.md, which the journals of their
runs, and the messages that their attempts have read, have to hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from archon.agent.task import TaskContext
from archon.errors import ArchonError, DeadlineExceeded, NoReceiver, Unavailable
from archon.types import Message, MessageType
from archon_mesh.engine import events as ev
from tests.simulation.check import must

if TYPE_CHECKING:
    from tests.simulation.check import Book
    from tests.simulation.world import World

TYPES: Final = (MessageType.NOTIFICATION, MessageType.ERROR)
TOPICS: Final = ((), ("broadcast",), ("type:error",), ("broadcast", "type:error"))


@dataclass(slots=True)
class Reading:
    """What one attempt has subscribed to, and the numbers of the messages that it has read, in order."""

    task_id: str
    topics: tuple[str, ...]
    seqs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Exchanges:
    """The messages of all runs, as their agents know them."""

    readings: list[Reading] = field(default_factory=list)
    accepted: list[tuple[str, str]] = field(default_factory=list)
    """The tasks and ids of the messages that the mesh has confirmed to their senders."""


async def exchange(task: TaskContext, world: World, roles: Sequence[str]) -> None:
    """Sends some messages and reads others, as a handler does; leaves out what the mesh refuses."""
    random, exchanges = world.dice.random, world.exchanges
    reading = Reading(task.task_id, random.choice(TOPICS))
    if random.random() < 0.8:
        exchanges.readings.append(reading)
        reader = asyncio.ensure_future(_read(task, reading, random.uniform(0.2, 2.0)))
    else:
        reader = None
    try:
        for number in range(random.randint(0, 4)):
            await _send(task, world, random.choice(("", "", "", *roles)), number)
            await asyncio.sleep(world.dice.delay(0.1, "slow work"))
        if random.random() < 0.2:
            await _request(task, world, random.choice(roles))
        if reader is not None:
            await asyncio.wait([reader])
    finally:
        if reader is not None:
            reader.cancel()
    if world.dice.fault("attempt failed after its messages", 0.1):
        raise Unavailable("the network is away")


async def _read(task: TaskContext, reading: Reading, seconds: float) -> None:
    async for message in task.messages(*reading.topics, timeout=seconds):
        reading.seqs.append(message.seq)
        if message.correlation_id or message.content != "ping":
            continue
        try:
            await task.reply(message, "pong")
        except ArchonError:
            pass


async def _send(task: TaskContext, world: World, to: str, number: int) -> None:
    kind = world.dice.random.choice(TYPES)
    try:
        sent = await task.send(f"message {number}", to, type=kind)
    except NoReceiver:
        world.dice.fired["message without a receiver"] += 1
    else:
        world.dice.fired["message accepted"] += 1
        world.exchanges.accepted.append((task.task_id, sent))


async def _request(task: TaskContext, world: World, to: str) -> None:
    try:
        reply: Message = await task.request("ping", to, type=MessageType.NOTIFICATION, timeout=0.5)
    except DeadlineExceeded:
        world.dice.fired["request without an answer"] += 1
    except ArchonError:
        world.dice.fired["request refused"] += 1
    else:
        world.dice.fired["request answered" if reply.seq else "request delegated"] += 1


def validate_messages(world: World) -> None:
    """Checks lines 32 to 34 on the journals of all runs."""
    of_tasks: dict[str, Book] = {}
    for book in world.check.books.values():
        _validate_journal(book, world)
        of_tasks |= dict.fromkeys(book.state.tasks, book)
    for reading in world.exchanges.readings:
        _validate_reading(of_tasks[reading.task_id], reading, world)
    for task_id, message_id in world.exchanges.accepted:
        known = of_tasks[task_id].state.tasks[task_id].sent.get(message_id, 0)
        must("V34", known > 0, f"the message {message_id} of {task_id} was confirmed, and is not in the journal")


def _validate_journal(book: Book, world: World) -> None:
    """V33: a message of a task is accepted once."""
    accepted: dict[tuple[str, str], int] = {}
    for seq, event in enumerate(book.facts, 1):
        if not isinstance(event, ev.MessageSent) or event.failure is not None:
            continue
        key = event.task_id, event.message_id
        if event.first_seq:
            world.dice.fired["message sent again"] += 1
            must("V33", accepted.get(key) == event.first_seq, f"{key} was not accepted as {event.first_seq}")
        else:
            must("V33", key not in accepted, f"{key} was accepted as {accepted.get(key)} and {seq}")
            accepted[key] = seq


def _validate_reading(book: Book, reading: Reading, world: World) -> None:
    """V32: an attempt reads each message of a topic once, in order, and without a gap."""
    task = book.state.tasks[reading.task_id]
    must("V32", len(set(reading.seqs)) == len(reading.seqs), f"{task.task_id} read a message twice: {reading.seqs}")
    own = {task.role, task.step_id, task.task_id} - {""}
    sent = [
        (seq, event)
        for seq, event in enumerate(book.facts, 1)
        if isinstance(event, ev.MessageSent)
        and event.failure is None
        and not event.first_seq
        and event.task_id != task.task_id
        and not event.correlation_id.startswith("q-")
    ]
    named = [seq for seq, event in sent if event.receiver in own]
    open_ = [seq for seq, event in sent if not event.receiver and _is_of(event, reading.topics)]
    must("V32", set(reading.seqs) <= {*named, *open_}, f"{task.task_id} read what was not for it: {reading.seqs}")
    for expected in (named, open_):
        read = [seq for seq in reading.seqs if seq in set(expected)]
        must("V32", read == expected[: len(read)], f"{task.task_id} read {read} of {expected}")
        world.dice.fired["message read"] += len(read)


def _is_of(event: ev.MessageSent, topics: tuple[str, ...]) -> bool:
    return "broadcast" in topics or f"type:{event.type}" in topics
