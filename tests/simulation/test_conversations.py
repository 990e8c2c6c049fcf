"""Stateful roles under all faults, with concurrent runs in a few sessions, several replicas, and planted bugs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from archon_mesh.core.run import RunState
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.runs import step
from archon_services.orchestrator.runs.session_history import SessionHistory
from tests.simulation.check import Violation
from tests.simulation.course import run_seed

SEEDS = 50


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_durability_17_no_turn_is_lost_doubled_or_out_of_order() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired.update(run_seed(seed, stateful=True).fired)
    assert fired["turn that came second"] > SEEDS, "replicas race for conversations in most seeds"


def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryJournal, "_version", lambda self, turn: 0)


def history_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = SessionHistory.turns
    monkeypatch.setattr(SessionHistory, "turns", lambda self, task_id: turns(self, task_id)[:-1])


def never_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_turns", lambda run, events: ())


def unstored_tasks_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    release = SessionHistory.release

    def release_all(self: SessionHistory, run: RunState) -> None:
        assert set(self._entries) <= set(run.tasks)
        release(self, run)

    monkeypatch.setattr(SessionHistory, "release", release_all)


def test_a_driver_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    unstored_tasks_expected(monkeypatch)
    with pytest.raises(Violation, match=r"V6: .* the driver of .* failed"):
        for seed in range(SEEDS):
            run_seed(seed, stateful=True)


@pytest.mark.parametrize("plant", [unchecked, history_cut_short, never_stored])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match="V17"):
        for seed in range(SEEDS):
            run_seed(seed, stateful=True)
