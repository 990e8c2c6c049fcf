"""Bytes in flight: bounded for a session and for the process, and given back."""

from __future__ import annotations

from archon_services.orchestrator.sessions.in_flight import InFlight, ProcessBytes


def test_a_session_above_its_limit_is_full_until_bytes_are_released() -> None:
    session = InFlight(ProcessBytes(1_000_000), limit=100)
    full = []
    for change in (100, 1, -1):
        session.add(change) if change > 0 else session.release(-change)
        full.append(session.full)
    assert full == [False, True, False]


def test_above_half_of_the_process_limit_a_session_may_hold_its_share() -> None:
    process = ProcessBytes(1_000)
    flood, honest, idle = InFlight(process), InFlight(process), InFlight(process)
    honest.add(10)
    flood.add(490)
    full = [flood.full]  # half of the limit is reached, not exceeded
    flood.add(10)
    full.append(flood.full)
    assert (honest.full, idle.full) == (False, False), "who holds little is not held up by one that holds much"
    flood.release(300)
    assert [*full, flood.full] == [False, True, False]


def test_an_ended_session_holds_nothing() -> None:
    process = ProcessBytes(1_000)
    session = InFlight(process)
    session.add(700)
    session.close()
    assert (process.used, process.holders) == (0, 0)
    session.add(5)
    session.release(700)
    assert (process.used, process.holders) == (0, 0), "receipts that come later change nothing"
