"""Reads the outcomes of an ended run: of its tasks, of the tools that they called, and of a person's rating."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.learning import LearnedChoices, read_choices
from archon_mesh.engine import RunState
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.learning.weights import Outcome, Subject
from archon_services.orchestrator.track_records.observations import is_own

RATING_COUNT: Final = 3.0
"""Outcomes that a person's rating counts as: three of an attempt."""

_STARS: Final = 5


def of_tasks(run: RunState) -> list[Outcome]:
    """Returns the outcomes of a run's tasks: 1 for one that completed, 0 for one that failed by the instance's own
    fault; a task that was cancelled, or failed for another reason, has none."""
    outcomes: list[Outcome] = []
    choices = _choices(run)
    for task in run.tasks.values():
        if not task.instance_id or task.state not in (TaskState.COMPLETED, TaskState.FAILED):
            continue
        if task.state is TaskState.FAILED and (task.failure is None or not is_own(task.failure)):
            continue
        score = 1.0 if task.state is TaskState.COMPLETED else 0.0
        outcomes += [Outcome(subject, score) for subject in _subjects(task.role, task.instance_id, choices)]
    return outcomes


def of_rating(run: run_pb2.Run, stars: int) -> list[Outcome]:
    """Returns the outcomes of a rating: of everything that took part in a task that completed, once. The summary of a
    run is sufficient."""
    choices = read_choices(run.metadata)
    subjects = {
        subject
        for task in run.tasks
        if task.instance_id and task.state == common_pb2.TASK_STATE_COMPLETED
        for subject in _subjects(task.role, task.instance_id, choices)
    }
    score = (min(_STARS, max(1, stars)) - 1) / (_STARS - 1)
    return [Outcome(subject, score, RATING_COUNT) for subject in sorted(subjects)]


def of_records(records: Iterable[run_pb2.RunRecord]) -> list[Outcome]:
    """Returns the outcomes of recorded calls of tools."""
    outcomes = []
    for record in records:
        if record.kind == "tool" and record.target:
            good = _status(record.response_json) == "success"
            outcomes.append(Outcome(Subject("tool", record.role, record.target), 1.0 if good else 0.0))
    return outcomes


def _subjects(role: str, instance_id: str, choices: LearnedChoices) -> list[Subject]:
    subjects = [Subject("role", role), Subject("instance", role, instance_id)]
    if variant := choices.of(role).variant:
        subjects.append(Subject("variant", role, variant))
    return subjects


def _choices(run: RunState) -> LearnedChoices:
    submitted = run.submission.goal if run.submission is not None else None
    return read_choices(submitted.metadata) if isinstance(submitted, run_pb2.Submitted) else LearnedChoices()


def _status(response_json: str) -> str:
    try:
        response = json.loads(response_json)
    except ValueError:
        return ""
    return str(response.get("status", "")) if isinstance(response, dict) else ""
