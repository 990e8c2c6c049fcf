"""Line 17 of docs/durability.md: each turn of a conversation is stored once, by an attempt that received all earlier
turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.agent import HistoryMessage, TaskContext
from archon.api.agent.v1 import agent_pb2
from archon_mesh.engine import events as ev
from tests.simulation.check import must

if TYPE_CHECKING:
    from tests.simulation.world import World

LAST_TURN = "dev.archon.simulation/last"


def turn_of(task: TaskContext) -> list[HistoryMessage]:
    """Returns a turn that names its attempt, and in its metadata the attempt of the last turn that it received."""
    history = task.history
    last_turn = history[-1].text if history else ""
    return [HistoryMessage("assistant", f"{task.task_id}/{task.attempt}", metadata={LAST_TURN: last_turn})]


def validate_conversations(world: World) -> None:
    """Checks at the end that the stored turns are exactly those that the journals' results add."""
    remembered: dict[str, int] = {}
    for book in world.check.books.values():
        for event in book.facts:
            if isinstance(event, ev.ResultReceived) and event.stores_turn:
                version = book.dispatched[event.task_id, event.attempt].conversation_version
                assert version is not None
                remembered[f"{event.task_id}/{event.attempt}"] = version + 1
            if isinstance(event, ev.Retried) and event.failure.reason == "CONVERSATION_MOVED":
                world.dice.fired["turn that came second"] += 1
    for key, turns in world.store._turns.items():
        versions = [turn[0] for turn in turns]
        must("V17", versions == list(range(1, len(turns) + 1)), f"{key} has {versions}")
        previous = ""
        for version, data, _ in turns:
            (message,) = agent_pb2.AssignTask.FromString(data).history
            attempt, received = message.parts[0].text, message.metadata[LAST_TURN]
            must(
                "V17",
                received == previous,
                f"{attempt} is version {version} of {key} and received {received!r}, not {previous!r}",
            )
            must(
                "V17",
                remembered.pop(attempt, 0) == version,
                f"{attempt} is version {version} of {key}, and no result adds it",
            )
            previous = attempt
    must("V17", not remembered, f"turns of results that are not stored: {remembered}")
