"""Attempts that only wait for their delegations use no slot, and continue only when a slot is free."""

from __future__ import annotations

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon_services.orchestrator.sessions.attempt_channel import AttemptChannel
from archon_services.orchestrator.sessions.credit_window import CreditWindow
from archon_services.orchestrator.sessions.in_flight import InFlight, ProcessBytes


class Window:
    """An instance with `size` slots."""

    def __init__(self, size: int, max_waiting: int = 10) -> None:
        self.size = size
        self.freed = 0
        self.credit = CreditWindow(self._freed, lambda: self.size - self.credit.in_flight)
        self.credit.max_waiting = max_waiting
        self._number = 0

    def _freed(self) -> None:
        self.freed += 1

    def begin(self) -> AttemptChannel:
        self._number += 1
        attempt = AttemptChannel(
            common_pb2.TaskRef(task_id=f"t{self._number}", attempt=1), "role", InFlight(ProcessBytes())
        )
        self.credit.take(attempt)
        return attempt


def answer(name: str) -> session_pb2.OrchestratorFrame:
    return session_pb2.OrchestratorFrame(delegate_result=session_pb2.DelegateResult(delegation_id=name))


def test_a_waiting_task_frees_its_slot_until_its_last_answer() -> None:
    window = Window(1)
    first = window.begin()
    window.credit.delegated(first, "a")
    window.credit.delegated(first, "b")
    assert (window.credit.in_flight, window.credit.waiting, window.freed) == (0, 1, 1)
    second = window.begin()
    assert window.credit.may_pass(first, answer("a")), "a task that still waits for another answer needs no slot"
    assert not window.credit.may_pass(first, answer("b"))
    assert window.credit.released() == []
    window.credit.leave(second)
    assert [attempt for attempt, _ in window.credit.released()] == [first]
    assert (window.credit.in_flight, window.credit.waiting) == (1, 0)


def test_held_answers_are_released_in_order() -> None:
    window = Window(0)
    waiting = [window.begin() for _ in range(3)]
    for attempt in waiting:
        window.credit.delegated(attempt, "a")
        assert not window.credit.may_pass(attempt, answer("a"))
    window.size = 2
    assert [attempt for attempt, _ in window.credit.released()] == waiting[:2]
    window.size = 3
    assert [attempt for attempt, _ in window.credit.released()] == waiting[2:]


def test_above_max_waiting_a_task_keeps_its_slot_while_it_waits() -> None:
    window = Window(2, max_waiting=1)
    first, second = window.begin(), window.begin()
    window.credit.delegated(first, "a")
    window.credit.delegated(second, "a")
    assert (window.credit.in_flight, window.credit.waiting) == (1, 1)
    assert window.credit.may_pass(second, answer("a"))
    assert window.credit.may_pass(first, answer("a"))
    assert (window.credit.in_flight, window.credit.waiting) == (2, 0)


def test_a_cancelled_delegation_lets_its_task_continue() -> None:
    window = Window(1)
    attempt = window.begin()
    window.credit.delegated(attempt, "a")
    window.credit.delegation_cancelled(attempt, "a")
    assert (window.credit.in_flight, window.credit.waiting) == (1, 0)


def test_answers_held_for_an_ended_attempt_are_dropped() -> None:
    window = Window(0)
    attempt = window.begin()
    window.credit.delegated(attempt, "a")
    assert not window.credit.may_pass(attempt, answer("a"))
    attempt.concluded = True
    window.credit.leave(attempt)
    window.size = 1
    assert window.credit.released() == []
    assert (window.credit.in_flight, window.credit.waiting) == (0, 0)


def test_other_frames_need_no_slot() -> None:
    window = Window(0)
    attempt = window.begin()
    window.credit.delegated(attempt, "a")
    grant = session_pb2.OrchestratorFrame(budget_grant=session_pb2.BudgetGrant(request_id="b1"))
    assert window.credit.may_pass(attempt, grant)


def test_an_adopted_attempt_with_open_delegations_waits() -> None:
    window = Window(1)
    attempt = AttemptChannel(common_pb2.TaskRef(task_id="t", attempt=1), "role", InFlight(ProcessBytes()))
    attempt.outstanding = {"a"}
    window.credit.take(attempt)
    assert (window.credit.in_flight, window.credit.waiting) == (0, 1)
