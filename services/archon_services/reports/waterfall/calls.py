"""Calls of models and tools, as the records of a run tell them. Their contents are not kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon.json_text import json_object
from archon.run_view import Usage
from archon.wire import to_seconds
from archon_services.reports.waterfall.spans import Span, SpanKind


@dataclass(frozen=True, slots=True)
class Call:
    """One call; times are by the agent's clock, in seconds since the epoch. `status` is `failed` or empty."""

    task_id: str
    attempt: int
    kind: str
    target: str
    start: float
    end: float
    spent: Usage = field(default_factory=Usage)
    status: str = ""
    detail: str = ""

    def span(self) -> Span:
        """Returns the call as a span."""
        kind = SpanKind.TOOL if self.kind == "tool" else SpanKind.MODEL
        status = self.status or "completed"
        return Span(
            kind, self.target, self.start, self.end, status, self.detail, self.task_id, self.attempt, spent=self.spent
        )


def read_call(record: RunRecord) -> Call:
    """Returns the call of a record."""
    start = to_seconds(record.start_time)
    spent = Usage.from_proto(record.usage)
    failed, detail = _failure(record.response_json)
    return Call(
        record.task.task_id,
        record.task.attempt,
        record.kind,
        record.target,
        start,
        start + max(0.0, to_seconds(record.duration)),
        spent,
        "failed" if failed else "",
        detail,
    )


def _failure(response_json: str) -> tuple[bool, str]:
    """Whether a call failed, and the reason; a reply in an unknown form counts as a success."""
    if (response := json_object(response_json)) is None:
        return False, ""
    if isinstance(error := response.get("error"), dict):
        return True, str(error.get("reason") or error.get("code") or "")
    status = response.get("status")
    return (True, status) if isinstance(status, str) and status not in ("success", "") else (False, "")
