"""Waiting for room, and for a time: nobody waits for ever because another one was told in vain, or the journal slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from archon_mesh.core.run import Effect, Place
from archon_mesh.core.run.types import Requirement
from archon_services.orchestrator.ports import Transport
from archon_services.orchestrator.runs.placement import Placement
from archon_services.orchestrator.runs.timer import RunTimer


class OneSlot:
    """Wakes the first who waits whenever its slot is free."""

    def __init__(self) -> None:
        self.free = 0
        self.waiting: list[Callable[[], None]] = []

    def stateful(self, role: str) -> bool:
        return False

    def reserve(self, want: Requirement) -> str | None:
        if not self.free:
            return None
        self.free -= 1
        return "i"

    def release(self, instance_id: str) -> None:
        self.free += 1
        if self.waiting:
            self.waiting.pop(0)()

    def when_free(self, want: Requirement, wake: Callable[[], None]) -> Callable[[], None]:
        self.waiting.append(wake)
        return lambda: None


def test_room_that_was_offered_to_a_task_which_needs_none_any_more_is_the_next_ones() -> None:
    transport, woken = OneSlot(), list[str]()
    paused, other = (Placement(cast(Transport, transport), lambda name=name: woken.append(name)) for name in "po")  # type: ignore[misc]
    assert paused.find(Place("p", Requirement("a"), 1, 0.0)) is None
    assert other.find(Place("o", Requirement("a"), 1, 0.0)) is None
    transport.release("i")
    assert woken == ["p"]
    paused.pass_on()  # its run was paused: it looked for nothing
    assert woken == ["p", "o"]
    assert other.find(Place("o", Requirement("a"), 1, 0.0)) == "i"


def test_room_that_was_offered_to_a_run_that_is_over_is_the_next_ones() -> None:
    transport, woken = OneSlot(), list[str]()
    over, other = (Placement(cast(Transport, transport), lambda name=name: woken.append(name)) for name in "xo")  # type: ignore[misc]
    over.find(Place("x", Requirement("a"), 1, 0.0))
    other.find(Place("o", Requirement("a"), 1, 0.0))
    transport.release("i")
    over.cancel()
    assert woken == ["x", "o"]


async def test_what_came_due_while_its_append_was_under_way_is_looked_at_at_once() -> None:
    class Clock:
        def now(self) -> float:
            return 101.0

        def monotonic(self) -> float:
            return 1.0

    rung = asyncio.Event()
    alarm = RunTimer(Clock(), rung.set)
    effects: set[Effect] = {Place("t", Requirement("a"), 2, not_before=100.5)}
    alarm.set(effects, decided_at=100.4)
    await asyncio.wait_for(rung.wait(), 1.0)
    alarm.set(effects, decided_at=101.0)
    assert not alarm.at, "it waits for room, and for no time"
