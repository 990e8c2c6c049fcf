"""Tasks that wait for a free slot are woken in order, per requirement."""

from __future__ import annotations

from archon_mesh.core.run.types import Requirement
from archon_services.orchestrator.sessions.waiting_list import WaitingList

PLAIN, ABLE, OTHER = Requirement("a"), Requirement("a", "able"), Requirement("b")


def test_as_many_are_woken_as_slots_are_free_first_come_first() -> None:
    waiting, woken = WaitingList(), list[str]()
    for name in ("first", "second", "third"):
        waiting.add(PLAIN, lambda name=name: woken.append(name))  # type: ignore[misc]
    waiting.wake(PLAIN, 0)
    waiting.wake(PLAIN, -1)
    assert woken == []
    waiting.wake(PLAIN, 2)
    assert woken == ["first", "second"]
    waiting.wake(PLAIN, 5)
    assert woken == ["first", "second", "third"]
    assert waiting.requirements("a") == []


def test_requirements_are_listed_per_role() -> None:
    waiting = WaitingList()
    cancels = [waiting.add(requirement, lambda: None) for requirement in (PLAIN, ABLE, OTHER)]
    assert waiting.requirements("a") == [PLAIN, ABLE]
    assert waiting.requirements("b") == [OTHER]
    cancels[0]()
    cancels[0]()
    assert waiting.requirements("a") == [ABLE]
    cancels[1]()
    assert waiting.requirements("a") == []


def test_a_cancelled_callback_is_not_called() -> None:
    waiting, woken = WaitingList(), list[str]()
    cancel = waiting.add(PLAIN, lambda: woken.append("cancelled"))
    waiting.add(PLAIN, lambda: woken.append("waiting"))
    cancel()
    waiting.wake(PLAIN, 5)
    assert woken == ["waiting"]
    cancel()
