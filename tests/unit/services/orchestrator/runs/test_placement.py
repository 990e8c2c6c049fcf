"""Tasks that wait for a slot or for a time are woken, even if a slot was offered in vain or the journal was slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import cast

from archon_mesh.engine import Effect, Place
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.ports import Slot, SystemClock, Transport
from archon_services.orchestrator.runs.clock.timer import RunTimer
from archon_services.orchestrator.runs.turn.placement import Placement


class OneSlot:
    """A transport with one slot. Wakes the first waiting task whenever the slot is free."""

    def __init__(self) -> None:
        self.free = 0
        self.waiting: list[Callable[[], None]] = []

    def stateful(self, role: str) -> bool:
        return False

    def message_types(self, role: str) -> dict[str, str]:
        return {}

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        if not self.free:
            return None
        self.free -= 1
        return Slot("i")

    def release(self, instance_id: str) -> None:
        self.free += 1
        if self.waiting:
            self.waiting.pop(0)()

    def when_free(self, want: Requirement, run_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        self.waiting.append(wake)
        return lambda: self.waiting.remove(wake)


def placements(names: str, transport: OneSlot, woken: list[str]) -> list[Placement]:
    """Returns the placement of a run for each letter, which is noted when it is woken."""
    return [Placement(name, cast(Transport, transport), partial(woken.append, name)) for name in names]


def test_a_slot_that_a_paused_task_does_not_use_goes_to_the_next() -> None:
    transport, woken = OneSlot(), list[str]()
    paused, waiting = placements("po", transport, woken)
    assert paused.find(Place("p", Requirement("a"), 1, 0.0)) is None
    assert waiting.find(Place("o", Requirement("a"), 1, 0.0)) is None
    transport.release("i")
    assert woken == ["p"]
    paused.pass_on()  # its run was paused, so that it needs no slot
    assert woken == ["p", "o"]
    assert waiting.find(Place("o", Requirement("a"), 1, 0.0)) == Slot("i")


def test_a_slot_that_an_ended_run_does_not_use_goes_to_the_next() -> None:
    transport, woken = OneSlot(), list[str]()
    over, waiting = placements("xo", transport, woken)
    over.find(Place("x", Requirement("a"), 1, 0.0))
    waiting.find(Place("o", Requirement("a"), 1, 0.0))
    transport.release("i")
    over.cancel()
    assert woken == ["x", "o"]


def test_a_slot_that_an_ended_run_does_not_use_skips_its_other_tasks() -> None:
    transport, woken = OneSlot(), list[str]()
    over, waiting = placements("xo", transport, woken)
    for task in ("x1", "x2"):
        over.find(Place(task, Requirement("a"), 1, 0.0))
    waiting.find(Place("o", Requirement("a"), 1, 0.0))
    transport.release("i")
    over.cancel()
    assert woken == ["x", "o"]


async def test_a_time_that_passed_during_an_append_fires_at_once() -> None:
    rung = asyncio.Event()
    timer = RunTimer(SystemClock(101.0), rung.set)
    effects: set[Effect] = {Place("t", Requirement("a"), 2, not_before=100.5)}
    timer.set(effects, decided_at=100.4)
    await asyncio.wait_for(rung.wait(), 60)
    timer.set(effects, decided_at=101.0)
    assert not timer.at, "it waits for a slot, not for a time"
