"""Line 17 of docs/durability.md: each turn of a conversation counts once, and was made by who knew all before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.agent import HistoryMessage, TaskContext
from archon.api.agent.v1 import agent_pb2
from archon_mesh.core.run import events as ev
from tests.simulation.check import must

if TYPE_CHECKING:
    from tests.simulation.world import World

TOLD = "dev.archon.simulation/told"


def turn_of(task: TaskContext) -> list[HistoryMessage]:
    """Who said it, and who had said what it knew last."""
    before = task.history
    told = before[-1].text if before else ""
    return [HistoryMessage("assistant", f"{task.task_id}/{task.attempt}", metadata={TOLD: told})]


def validate_conversations(world: World) -> None:
    """At the end: what is stored is what the journals say was remembered, and nothing else."""
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
        must("V17", [one[0] for one in turns] == list(range(1, len(turns) + 1)), f"{key} has {[t[0] for t in turns]}")
        before = ""
        for version, data, _ in turns:
            (said,) = agent_pb2.AssignTask.FromString(data).history
            who, told = said.parts[0].text, said.metadata[TOLD]
            must("V17", told == before, f"{who} is version {version} of {key} and knew {told!r}, not {before!r}")
            must(
                "V17", remembered.pop(who, 0) == version, f"{who} is version {version} of {key}, and no result says so"
            )
            before = who
    must("V17", not remembered, f"remembered, and nowhere stored: {remembered}")
