"""Ratings of runs by people, and the track records of roles and instances, which they are added to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from archon import context
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FailedPrecondition, FieldViolation, InvalidArgument
from archon.wire import set_seconds
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.convert.track_record import tally_to_proto
from archon_services.orchestrator.journal import Journal, RatingRow, RunRow
from archon_services.orchestrator.track_records.records import TrackRecords

MAX_COMMENT: Final = 4_096
"""Characters of a comment."""

MAX_STARS: Final = 5

FORGOTTEN: Final = 0.005
"""Weight below which a record is not listed: 8 half-lives after a single task."""


class RunRatings:
    """Raises Archon's errors. `now` returns wall seconds by the journal's clock."""

    def __init__(self, journal: Journal, records: TrackRecords, now: Callable[[], float], audit: AuditRecord) -> None:
        self._journal = journal
        self._records = records
        self._now = now
        self._audit = audit

    async def rate(self, row: RunRow, run: run_pb2.Run, request: pb.RateRunRequest) -> None:
        """Stores the caller's rating of a run that has ended, in place of an earlier one, and adds it to the records of
        the instances that completed tasks in it. `row` and `run` are the run as it is. Raises InvalidArgument,
        FailedPrecondition if the run has not ended, and the errors of the journal."""
        _check(request)
        if not row.ended_at:
            message = f"run {row.run_id} has not ended: it can be rated after its end"
            raise FailedPrecondition(message, metadata={"run_id": row.run_id})
        rating = RatingRow(context.current().identity, request.stars, request.comment, self._now())
        earlier = await self._journal.rate(row.run_id, rating)
        await self._audit.add(self._audit.row("run.rate", run_id=row.run_id, details={"stars": request.stars}))
        workers = [
            (task.role, task.instance_id)
            for task in run.tasks
            if task.instance_id and task.state == common_pb2.TASK_STATE_COMPLETED
        ]
        replaced = (earlier.stars, earlier.time) if earlier is not None else None
        self._records.rate(row.tenant, workers, rating.stars, replaced)

    async def add_to(self, run: run_pb2.Run) -> None:
        """Adds the ratings to a run that has ended."""
        if not run.HasField("end_time"):
            return
        for rating in await self._journal.ratings(run.run_id):
            out = run.ratings.add(identity=rating.identity, stars=rating.stars, comment=rating.comment)
            set_seconds(out.rate_time, rating.time)

    def list_metrics(self, request: pb.ListInstanceMetricsRequest) -> pb.ListInstanceMetricsResponse:
        """Returns a page of records. Raises InvalidArgument / INVALID_PAGE_TOKEN."""
        tenant = context.current().tenant
        last = read_token(request.page_token, "metrics", request.role, like=["", ""])
        size = page_size(request.page_size)
        out = pb.ListInstanceMetricsResponse()
        for subject in self._records.subjects(tenant, request.role):
            if last and [subject.role, subject.instance_id] <= last:
                continue
            tally = self._records.of(*subject)
            if tally is None or max(tally.tasks, tally.ratings, tally.bids, tally.conflicts) < FORGOTTEN:
                continue
            if len(out.metrics) == size:
                position = [out.metrics[-1].role, out.metrics[-1].instance_id]
                out.next_page_token = make_token(position, "metrics", request.role)
                break
            out.metrics.append(tally_to_proto(subject.role, subject.instance_id, tally))
        return out


def _check(request: pb.RateRunRequest) -> None:
    violations = []
    if not 1 <= request.stars <= MAX_STARS:
        violations.append(FieldViolation("stars", f"must be 1 (bad) to {MAX_STARS} (good)"))
    if len(request.comment) > MAX_COMMENT:
        violations.append(FieldViolation("comment", f"longer than {MAX_COMMENT:,} characters"))
    if violations:
        text = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise InvalidArgument(text, field_violations=violations)
