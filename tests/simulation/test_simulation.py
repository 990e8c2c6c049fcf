"""The first 1,000 seeds, and that the net has no holes where faults are planted on purpose."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from archon_mesh.core.run import Event, RunState, Task, engine
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import encode_inputs
from archon_mesh.core.run.common import TaskState
from archon_mesh.core.run.delegation import delegate
from archon_services.orchestrator import driver
from tests.simulation.course import run_seed
from tests.simulation.run import attempt
from tests.simulation.validator import Violation

SEEDS = 1000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_a_thousand_seeds_of_crashes_delays_and_duplicates_hold_every_line_of_the_validator() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = attempt(seed)
        assert not isinstance(outcome, str), outcome
        fired += outcome.fired
        assert len([name for name, count in outcome.fired.items() if count]) >= 1
    for fault in (
        "orchestrator killed",
        "orchestrator deposed while it works",
        "agent killed",
        "agent frozen",
        "frame to an agent lost",
        "frame of an agent lost",
        "frame of an agent doubled",
        "ack lost",
        "delay",
        "journal fails before the commit",
        "journal fails after the commit",
        "run cancelled",
        "delegation cancelled",
        "left without waiting",
    ):
        assert fired[fault] > 0, f"the fault {fault!r} never fired"


def test_a_seed_replays_exactly() -> None:
    assert run_seed(7) == run_seed(7)


def caught(line: str, seeds: int = 1500) -> bool:
    """Whether the planted fault violates this line within so many seeds."""
    for seed in range(seeds):
        try:
            run_seed(seed)
        except Violation as violation:
            if str(violation).startswith(line):
                return True
    return False


def test_a_result_of_a_superseded_attempt_that_is_accepted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(run: RunState, name: str, attempt: int) -> object:
        return run.tasks.get(name)

    monkeypatch.setattr(RunState, "current", careless)
    assert caught("V3")


def test_a_dispatch_after_a_cancel_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(run: RunState, task: Task) -> bool:
        before = [run.tasks[name].state is TaskState.COMPLETED for name in task.predecessors]
        return not task.live and not task.ended and all(before)

    monkeypatch.setattr(RunState, "ready", careless)
    assert caught("V10")


def test_an_assignment_that_leaves_before_its_dispatch_is_durable_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = driver.RunDriver._append

    async def hasty(self: driver.RunDriver, *arguments: object) -> object:
        placed = {(t.task_id, t.attempt): t.instance_id for t in self.state.tasks.values() if t.live}
        self._do(placed)
        return await real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(driver.RunDriver, "_append", hasty)
    assert caught("V5")


def test_an_input_that_is_decided_but_not_stored_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(given: list[inp.Input], now: float) -> bytes:
        return encode_inputs([one for one in given if not isinstance(one, inp.LostIn)], now)

    monkeypatch.setattr(driver, "encode_inputs", careless)
    assert caught("V6")


def test_a_delegation_that_is_forgotten_and_made_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(run: RunState, task: Task, given: inp.DelegateIn) -> list[Event]:
        return delegate(run, replace(task, children={}), given)

    monkeypatch.setattr(engine, "delegate", careless)
    assert caught("V9")


def test_an_answer_to_a_delegation_that_leaves_before_its_result_is_durable_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Task, "answered", property(lambda task: task.live))
    assert caught("V5")


def test_a_budget_that_is_given_out_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "grant", lambda run, task, wanted: wanted)
    assert caught("V13")
