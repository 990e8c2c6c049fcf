"""Stateful roles under every fault there is: runs of a few sessions at once, several replicas, and mistakes on purpose."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.runs import step
from archon_services.orchestrator.runs.session_history import SessionHistory
from tests.simulation.check import Violation
from tests.simulation.course import run_seed

SEEDS = 80


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_durability_17_no_turn_is_lost_doubled_or_made_by_who_did_not_know_the_one_before() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired.update(run_seed(seed, stateful=True).fired)
    assert fired["turn that came second"] > SEEDS, "replicas race for conversations in most of them"


def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryJournal, "_version", lambda self, turn: 0)


def told_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = SessionHistory.turns
    monkeypatch.setattr(SessionHistory, "turns", lambda self, task_id: turns(self, task_id)[:-1])


def never_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_turns", lambda run, events: ())


@pytest.mark.parametrize("plant", [unchecked, told_too_little, never_stored])
def test_mistakes_on_purpose_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match="V17"):
        for seed in range(SEEDS):
            run_seed(seed, stateful=True)
