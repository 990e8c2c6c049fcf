"""The clock of a run that is run again stands still, and its timers fire when the script has come to them."""

from __future__ import annotations

from archon_services.replay.clock import ScriptedRunClock


def test_a_due_timer_fires_once_when_it_is_rung() -> None:
    clock, rung = ScriptedRunClock(100.0), list[str]()
    clock.call_at(105.0, lambda: rung.append("a"))
    clock.call_at(107.0, lambda: rung.append("b"))
    clock.ring()
    clock.move_to(105.0)
    assert (clock.now(), rung) == (105.0, [])
    clock.ring()
    clock.ring()
    assert rung == ["a"]
    clock.move_to(120.0)
    clock.ring()
    assert rung == ["a", "b"]


def test_a_cancelled_timer_does_not_fire() -> None:
    clock, rung = ScriptedRunClock(100.0), list[str]()
    clock.call_at(100.0, lambda: rung.append("a")).cancel()
    clock.ring()
    assert rung == []


def test_a_timer_may_set_another_that_is_due() -> None:
    clock, rung = ScriptedRunClock(100.0), list[str]()

    def again() -> None:
        clock.call_at(100.0, lambda: rung.append("again"))

    clock.call_at(100.0, again)
    clock.ring()
    assert rung == [], "it fires when it is rung the next time"
    clock.ring()
    assert rung == ["again"]


def test_the_clock_never_goes_back() -> None:
    clock = ScriptedRunClock(100.0)
    clock.move_to(99.0)
    assert clock.now() == 100.0 and not clock.ticks
