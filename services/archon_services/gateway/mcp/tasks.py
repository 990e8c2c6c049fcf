"""Runs as tasks of the extension `io.modelcontextprotocol/tasks`: the id of a task is the run's, so that tasks outlive
every process, and any replica answers for them."""

from __future__ import annotations

from typing import Any, Final

from mcp_types import INTERNAL_ERROR

from archon.plain_text import iso_time
from archon.types.run import Run
from archon.types.task_state import TaskState
from archon_services.gateway.mcp.questions import Addresses, answerable, request_of
from archon_services.gateway.mcp.results import REASON, RUN_ID, failure_text, is_failure_of_mesh, result_of

POLL_MS: Final = 1_000
"""Milliseconds after which a client looks at a task again."""


def created(run: Run) -> dict[str, Any]:
    """Returns the result of a call that has become a task."""
    return {"resultType": "task", **_task(run, "working", "")}


def detailed(run: Run, identity: str, addresses: Addresses) -> dict[str, Any]:
    """Returns a task with its result, its error, or the questions that `identity` may answer."""
    if run.state is TaskState.CANCELED:
        return _task(run, "cancelled", failure_text(run.failure) if run.failure is not None else "")
    if is_failure_of_mesh(run):
        text = failure_text(run.failure)
        data = {RUN_ID: run.run_id, REASON: run.failure.reason if run.failure is not None else ""}
        return {**_task(run, "failed", text), "error": {"code": INTERNAL_ERROR, "message": text, "data": data}}
    if run.state.final:
        result = result_of(run).model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**_task(run, "completed", ""), "result": result}
    if questions := answerable(run, identity):
        requests = {
            each.input_id: request_of(each, addresses).model_dump(by_alias=True, mode="json", exclude_none=True)
            for each in questions
        }
        return {**_task(run, "input_required", "a person is asked"), "inputRequests": requests}
    waits = "waits for another person" if run.questions else ""
    return _task(run, "working", "paused" if run.paused else waits)


def _task(run: Run, status: str, message: str) -> dict[str, Any]:
    """Returns the part that all tasks have. Retention removes runs, so that a task has no time of its own."""
    asked = max((question.create_time for question in run.questions), default=0.0)
    task = {
        "taskId": run.run_id,
        "status": status,
        "createdAt": iso_time(run.create_time),
        "lastUpdatedAt": iso_time(run.end_time or max(asked, run.create_time)),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    return task | ({"statusMessage": message} if message else {})
