"""A run with one root task that can delegate, driven input by input."""

from __future__ import annotations

from typing import TypeVar

from archon_mesh.core.people import InterceptionRule
from archon_mesh.engine import RunState, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.effects import Effect
from archon_mesh.engine.types import (
    NO_LIMIT,
    NOTHING,
    Amount,
    Budget,
    Edge,
    Failure,
    Item,
    SessionContextRef,
    Submission,
    Target,
    TaskState,
)
from tests.unit.mesh.engine.checked_step import checked_step

T0 = 1_000.0
GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")

E = TypeVar("E")


class Lead:
    """Task r.1 has the role `lead`; delegations create r.2 and so on, in order."""

    def __init__(
        self,
        roles: tuple[str, ...] = ("lead",),
        *,
        budget: Budget = NO_LIMIT,
        edges: tuple[tuple[str, str] | tuple[str, str, int], ...] = (),
        targets: tuple[str, ...] = (),
        all_ancestors: tuple[str, ...] = (),
        session_context: tuple[SessionContextRef, ...] = (),
        pause_timeout: float = 0.0,
        rules: tuple[InterceptionRule, ...] = (),
    ) -> None:
        self.state = RunState()
        self.now = T0
        self.log: list[ev.Event] = []
        submission = Submission(
            "r",
            "default",
            "q",
            "s" if session_context else "",
            "agent",
            roles,
            tuple(Edge(*edge) for edge in edges),
            600.0,
            None,
            (),
            all_ancestors,
            tuple(Target(role) for role in targets),
            budget,
            session_context,
            pause_timeout,
            rules=rules,
        )
        self.feed(inp.Submit(submission, "owner", 1))

    def feed(self, new_input: inp.Input) -> list[ev.Event]:
        events = checked_step(self.state, new_input, self.now)
        self.log += events
        return events

    def place(self, *numbers: int) -> None:
        for number in numbers:
            self.feed(inp.SlotFound(f"r.{number}", "i"))

    def delegate(
        self,
        number: int = 1,
        role: str = "helper",
        name: str = "",
        *,
        available: bool = True,
        digest: str = "",
        key: str = "",
        timeout: float = 60.0,
        budget: Budget = NO_LIMIT,
        capability: str = "",
        others: tuple[str, ...] = (),
        sequence: int = 0,
    ) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        return self.feed(
            inp.DelegateIn(
                task.task_id,
                task.attempt,
                name or f"d{len(task.delegations) + 1}",
                sequence,
                role,
                available,
                digest or role,
                None,
                capability,
                key,
                timeout,
                budget,
                others=others,
            )
        )

    def cancel(self, name: str, number: int = 1) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        return self.feed(inp.CancelDelegationIn(task.task_id, task.attempt, name, 0))

    def request(self, number: int, tokens: int, name: str = "b") -> Amount | None:
        """The reserved amount."""
        task = self.state.tasks[f"r.{number}"]
        (event,) = self.feed(inp.BudgetRequestIn(task.task_id, task.attempt, name, 0, Amount(tokens)))
        assert isinstance(event, ev.BudgetReserved)
        return event.reserved

    def result(
        self,
        number: int = 1,
        state: TaskState = TaskState.COMPLETED,
        spent: Amount = NOTHING,
        *,
        publish: bool = True,
        items: tuple[Item, ...] = (),
    ) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        return self.feed(
            inp.ResultIn(task.task_id, task.attempt, state, None, publish=publish, spent=spent, items=items)
        )

    def publish(self, number: int, policy: int = 1, sequence: int = 0) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        item = Item(policy, f"{task.role}/{policy}")
        return self.feed(inp.PublishIn(task.task_id, task.attempt, sequence or task.applied + 1, item))

    def stored(self, number: int, seq: int, version: int) -> list[ev.Event]:
        """The shared memory has stored the answer or item of event `seq`."""
        return self.feed(inp.PublishedIn(f"r.{number}", seq, version))

    def lose(self, number: int = 1) -> list[ev.Event]:
        task = self.state.tasks[f"r.{number}"]
        return self.feed(inp.LostIn(task.task_id, task.attempt, GONE))

    def after(self, seconds: float) -> list[ev.Event]:
        self.now += seconds
        return self.feed(inp.Tick())

    def opened(self, kind: type[E]) -> list[E]:
        effects: set[Effect] = open_effects(self.state)
        return [effect for effect in effects if isinstance(effect, kind)]


def refused(events: list[ev.Event]) -> str:
    """The reason of a refused delegation."""
    (event,) = events
    assert isinstance(event, ev.Delegated)
    assert event.failure is not None
    return event.failure.reason
