"""The log of an owner's shared tools: one line for each lease, execution and revocation, without contents."""

from __future__ import annotations

import logging
from typing import Any, Final

from archon.api.tool.v1 import tool_pb2
from archon.errors import ArchonError
from archon.tools.owner.execution import Execution
from archon.tools.owner.leases import Lease
from archon.types.task_ref import TaskRef

LOGGER: Final = "archon.shared_tools"
"""The logger, at INFO, at both ends."""

_log = logging.getLogger(LOGGER)

_STATUS: Final = {
    tool_pb2.TOOL_STATUS_SUCCESS: "success",
    tool_pb2.TOOL_STATUS_ERROR: "error",
    tool_pb2.TOOL_STATUS_TIMEOUT: "timeout",
}


def log_lease(lease: Lease, seconds: float) -> None:
    """Logs that a lease was granted."""
    _log.info(
        "lease %s of tool %s for %s, %.0f s",
        lease.shown,
        lease.tool_name,
        lease.instance_id or "an unnamed instance",
        seconds,
        extra=_fields("lease", lease),
    )


def log_revoked(lease: Lease, by: str) -> None:
    """Logs that a lease was ended before its time: by its `holder`, or by the `owner` of the tool."""
    _log.info("lease %s of tool %s revoked by the %s", lease.shown, lease.tool_name, by, extra=_fields("revoke", lease))


def log_execution(lease: Lease, execution: Execution) -> None:
    """Logs how an execution ended."""
    outcome, reason = outcome_of(execution)
    fields = _fields("execute", lease) | {"seconds": round(execution.took, 6), "outcome": outcome, "reason": reason}
    shown = f"{outcome} ({reason})" if reason else outcome
    _log.info("shared tool %s: %s in %.3f s", lease.tool_name, shown, execution.took, extra=fields)


def log_refused(lease: Lease, error: ArchonError) -> None:
    """Logs a call that was not executed."""
    fields = _fields("execute", lease) | {"outcome": "refused", "reason": error.reason}
    _log.info("shared tool %s: refused (%s)", lease.tool_name, error.reason, extra=fields)


def outcome_of(execution: Execution) -> tuple[str, str]:
    """Returns the outcome of an execution and the reason of its failure, without texts of the tool."""
    if execution.error is not None:
        return "cancelled" if execution.error.code == "CANCELLED" else "ended", execution.error.reason
    result = execution.result
    if result is None:
        return "", ""
    return _STATUS.get(result.status, ""), result.metadata.get("reason", "")


def _fields(event: str, lease: Lease) -> dict[str, Any]:
    fields = {"event": event, "tool": lease.tool_name, "lease": lease.shown, "caller": lease.instance_id}
    return fields | task_fields(lease.task)


def task_fields(task: TaskRef | None) -> dict[str, Any]:
    """Returns the fields of a line about an attempt."""
    return {"run_id": task.run_id, "task_id": task.task_id, "attempt": task.attempt} if task is not None else {}
