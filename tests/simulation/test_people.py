"""Runs with people under all faults: they decide, are silent, late, or the wrong ones; and planted bugs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from archon_mesh.core.people import Decision
from archon_mesh.core.run import RunState
from archon_mesh.core.run import events as ev
from archon_mesh.core.run.decide import approval
from archon_mesh.core.run.decide import human_input as decide_human_input
from archon_mesh.core.run.fold import apply as fold_table
from archon_mesh.core.run.question import OpenQuestion
from archon_mesh.core.run.task import Task
from tests.simulation import people
from tests.simulation.check import Violation
from tests.simulation.course import run_seed

SEEDS = 30

FAULTS = (
    "late answer",
    "person answered twice",
    "person asked under terms",
    "person decided approve",
    "person decided modify",
    "person decided reject",
    "person gave a plan",
    "person silent",
    "time-out: abort",
    "time-out: default",
    "time-out: escalate",
    "wrong person answered",
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_people_hold_every_line_under_all_faults() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired.update(run_seed(seed, plans=True, people=True).fired)
    silent = [fault for fault in FAULTS if not fired[fault]]
    assert not silent, f"these never happened: {silent}"


def test_a_seed_with_people_replays_exactly() -> None:
    assert run_seed(3, plans=True, people=True) == run_seed(3, plans=True, people=True)


def approved_results_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real = approval.decided

    def decided(
        run: RunState, task: Task, before: Sequence[ev.Event], given: ev.InputGiven, *replaced: Any
    ) -> list[ev.Event]:
        if task.held is not None and task.held.failure is None and given.decision is Decision.APPROVE:
            return [*before, given]
        return real(run, task, before, given, *replaced)

    monkeypatch.setattr(decide_human_input, "decided", decided)


def gates_hold_back_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = RunState.ready

    def careless(run: RunState, task: Task, *, paused: bool | None = None) -> bool:
        missing = task.missing
        task.missing -= sum(run.tasks[task_id].held is not None for task_id in task.predecessors)
        try:
            return ready(run, task, paused=paused)
        finally:
            task.missing = missing

    monkeypatch.setattr(RunState, "ready", careless)


def time_outs_move_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed_out(run: RunState, event: ev.QuestionTimedOut, time: float) -> None:
        asking = run.tasks[event.task_id].asking
        if asking is not None:
            asking.level = 0

    monkeypatch.setitem(fold_table._FOLD, ev.QuestionTimedOut, timed_out)


def anyone_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenQuestion, "approvers", ())
    monkeypatch.setattr(people, "answers", _strangers(people.answers))


def _strangers(real: Any) -> Any:
    def answers(*arguments: Any) -> list[tuple[str, Any]]:
        return [(people.STRANGER, request) for _, request in real(*arguments)]

    return answers


@pytest.mark.parametrize(
    ("line", "plant"),
    [
        ("V21", approved_results_are_made_again),
        ("V22", gates_hold_back_no_step),
        ("V23", time_outs_move_no_deadline),
        ("V24", anyone_may_answer),
    ],
)
def test_a_planted_bug_is_found(
    line: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{line}:"):
        for seed in range(SEEDS):
            run_seed(seed, plans=True, people=True)
