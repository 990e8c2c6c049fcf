"""The state of a run at one of its events, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from archon.run_view import RunView, TaskView
from archon.types import Failure, RunRecord
from archon.types.json_value import json_value
from archon_services.debugging.frames import frames_of
from archon_services.debugging.sent import memory_reads
from archon_services.debugging.stepper import Stepper


def state_document(stepper: Stepper) -> dict[str, Any]:
    """Returns the event, the state of the run after it, and of the event's task the material of its last
    attempt, the calls that were recorded so far, and its frames."""
    event, view, task = stepper.event, stepper.view, stepper.task
    document: dict[str, Any] = {
        "run_id": stepper.run.run_id,
        "seq": event.seq,
        "last_seq": stepper.run.last_seq,
        "event": {"type": event.type, "time": event.time, "task_id": event.task_id, "data": dict(event.data)},
        "state": run_document(view),
    }
    if task is not None:
        document["task"] = _task_details(stepper, task)
    return document


def run_document(view: RunView) -> dict[str, Any]:
    """Returns the state of a run. Times are in seconds since the epoch."""
    questions = [asdict(question) for question in view.questions]
    return {
        "state": str(view.state),
        "strategy": view.strategy,
        "paused": view.paused,
        "owner": view.owner,
        "failure": _failure(view.failure),
        "tasks": [_task_document(view, task) for task in view.tasks.values()],
        "questions": questions,
    }


def _task_document(view: RunView, task: TaskView) -> dict[str, Any]:
    attempt, wait = task.attempt, view.waiting_for(task)
    return {
        "task_id": task.task_id,
        "role": task.role,
        "step_id": task.step_id,
        "state": str(task.state),
        "attempt": attempt.number if attempt is not None else 0,
        "instance_id": attempt.instance_id if attempt is not None else "",
        "waiting_for": {"kind": str(wait.kind), "names": list(wait.names)} if wait is not None else None,
        "result_seq": task.result_seq,
        "memory_version": task.version,
        "failure": _failure(task.failure),
    }


def _task_details(stepper: Stepper, task: TaskView) -> dict[str, Any]:
    seq, run = stepper.seq, stepper.run
    number = task.attempt.number if task.attempt is not None else 0
    sent = stepper.sent.task(task.task_id, number) if number else None
    return {
        "task_id": task.task_id,
        "attempt": number,
        "sent": json_value(sent) if sent is not None else None,
        "memory": [asdict(read) for read in memory_reads(run, seq, task.task_id, number)],
        "calls": [_record(record) for record in stepper.sent.records(seq, task.task_id, number)] if number else [],
        "frames": [asdict(frame) for frame in frames_of(run.events[:seq], task.task_id)],
    }


def _record(record: RunRecord) -> dict[str, Any]:
    return {
        "ordinal": record.ordinal,
        "kind": record.kind,
        "target": record.target,
        "request": json.loads(record.request_json or "null"),
        "response": json.loads(record.response_json or "null"),
    }


def _failure(failure: Failure | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"reason": str(failure.reason), "kind": failure.kind, "message": failure.message}
