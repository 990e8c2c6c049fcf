"""Runs with people under all faults: they decide, are silent, late, or the wrong ones; and planted bugs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from archon_mesh.core.run import RunState
from archon_mesh.core.run import events as ev
from archon_mesh.core.run.fold import apply as fold_table
from archon_mesh.core.run.fold import human_input
from archon_mesh.core.run.question import OpenQuestion
from archon_mesh.core.run.task import Task
from archon_services.orchestrator.api import control
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


def answers_leave_the_question_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def given(run: RunState, event: ev.InputGiven, time: float) -> None:
        task = run.tasks[event.task_id]
        question, asking, is_first = task.question, task.asking, event.input_id not in run.responses
        human_input.input_given(run, event, time)
        if task.held is None and not task.live and is_first:
            task.question, task.asking = question, asking

    monkeypatch.setattr(control, "repeats", lambda state, request: False)
    monkeypatch.setitem(fold_table._FOLD, ev.InputGiven, given)


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


def _strangers(real: Callable[..., list[tuple[str, Any]]]) -> Callable[..., list[tuple[str, Any]]]:
    def answers(*arguments: object) -> list[tuple[str, Any]]:
        return [(people.STRANGER, request) for _, request in real(*arguments)]

    return answers


@pytest.mark.parametrize(
    ("line", "plant"),
    [
        ("V21", answers_leave_the_question_open),
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
