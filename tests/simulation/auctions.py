"""Bids, awards and the steps that they assign in the simulation; and lines 35 and 36 of docs/durability.md, which the
journals of their runs have to hold."""

from __future__ import annotations

from random import Random
from typing import Any

from archon.agent import TaskContext
from archon.errors import InvalidArgument
from archon.types import Bid
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.types import TaskState
from tests.simulation.check import Book, must
from tests.simulation.faults import Dice


def add_auctions(random: Random, steps: list[dict[str, Any]], roles: list[str]) -> None:
    """Puts bids and an award before some steps of a reply, and gives some steps a time."""
    for step in list(steps):
        if random.random() < 0.15:
            step["timeout_seconds"] = random.choice([0.3, 2, 10])
        if random.random() >= 0.4 or step.get("tool_name") or step["expand"]:
            continue
        name, seconds = step["id"], random.choice([0.2, 2, 10])
        bids = [
            {
                "id": f"{name}b{number}",
                "description": "bid for the goal",
                "dependencies": list(step["dependencies"]),
                "role": random.choice(roles),
                "bid_for": name,
                "timeout_seconds": seconds,
            }
            for number in range(random.randint(2, 3))
        ]
        award = {
            "id": f"{name}w",
            "description": "award the goal",
            "dependencies": [bid["id"] for bid in bids],
            "decision": "award",
            "partial_input": True,
        }
        step["dependencies"] = [*step["dependencies"], award["id"]]
        step["assigned_by"] = award["id"]
        steps += [*bids, award]


async def bid_at_random(task: TaskContext, dice: Dice) -> Bid | None:
    """Makes a bid; at times none, or one that fails."""
    assert task.bid_request is not None
    if dice.fault("agent does not bid", 0.1):
        return None
    if dice.fault("bid fails", 0.1):
        raise InvalidArgument("no bid can be made")
    return Bid(dice.random.randint(0, 1000), dice.random.uniform(0, 100), dice.random.random())


def validate_auctions(book: Book, dice: Dice) -> None:
    """V35 and V36 on the journal of one run."""
    validator = _Auctions(dice)
    for event in book.facts:
        validator.take(event)


class _Auctions:
    """The awards of a run, as far as its events have been taken."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._steps: dict[str, SubTask] = {}
        self._tasks: dict[str, str] = {}
        """The newest task of each step."""

        self._created: dict[str, ev.TaskCreated] = {}
        self._roles: dict[str, str] = {}
        """The role of each task, as it was dispatched last."""

        self._winners: dict[str, str] = {}
        """The winners of awards, by their tasks; empty if there was none."""

        self._timed_out: set[str] = set()

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.Planned():
                self._steps = {step.id: step for step in event.plan.subtasks}
            case ev.TaskCreated() if event.step_id:
                self._created[event.task_id] = event
                self._tasks[event.step_id] = event.task_id
            case ev.Dispatched() if event.task_id in self._created:
                self._dispatched(event)
                self._roles[event.task_id] = event.role
            case ev.TaskEnded() if event.failure is not None and event.failure.reason == "STEP_TIMEOUT":
                self._dice.fired["time of a step over"] += 1
                must("V36", bool(self._step_of(event.task_id).timeout_seconds), f"{event.task_id} has no time")
                self._timed_out.add(event.task_id)
            case ev.ResultReceived():
                must("V36", event.task_id not in self._timed_out, f"{event.task_id} has a result after its time")
                if event.state is TaskState.COMPLETED and event.task_id in self._created:
                    self._completed(event)

    def _step_of(self, task_id: str) -> SubTask:
        return self._steps[self._created[task_id].step_id]

    def _completed(self, event: ev.ResultReceived) -> None:
        step_id = self._created[event.task_id].step_id
        if step_id not in self._steps or self._steps[step_id].decision != "award":
            return
        must("V35", event.task_id not in self._winners, f"{event.task_id} was awarded twice")
        self._dice.fired["step awarded" if event.winner else "step awarded without a bid"] += 1
        self._winners[event.task_id] = event.winner

    def _chosen(self, award: str) -> str:
        """The task that made the result which an award has chosen, maybe by way of other awards; empty if none did."""
        chosen = award
        while chosen in self._winners:
            chosen = self._tasks.get(self._winners[chosen], "")
        return chosen

    def _dispatched(self, event: ev.Dispatched) -> None:
        """V35: the winner of an award executes the step, and its own role if there is none."""
        created = self._created[event.task_id]
        step = self._steps.get(created.step_id)
        if step is None or not step.assigned_by or self._tasks.get(step.id) != event.task_id:
            return
        award = self._tasks.get(step.assigned_by, "")
        winner = self._chosen(award)
        role = self._roles.get(winner, self._created[winner].role) if winner else created.role
        must("V35", event.role == role, f"{event.task_id} went to {event.role}, and was awarded to {role}")
