"""The wire of the orchestrator: decode, call, encode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc, run_pb2
from archon.errors import OutOfRange, RunExpired, Unavailable, UnknownRun
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Submission, quantize
from archon_services.orchestrator.convert.read import seconds_of
from archon_services.orchestrator.following import RegistryFollower
from archon_services.orchestrator.journal import Journal, RunRow
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs import Runs
from archon_services.orchestrator.summary import row_to_proto, run_to_proto
from archon_services.orchestrator.validation import DEFAULT_TIMEOUT, check_submit, payload_hash
from archon_services.paging import make_token, page_size, read_token

SERVICE = "archon.api.orchestrator.v1.OrchestratorService"
MAX_RECORD_PAGE_BYTES = 3 * 1024 * 1024
ANSWER_MARGIN = 0.2


def _not_served(self: object, request: Any, context: Any) -> Any:
    raise NotImplementedError


class OrchestratorServicer(orchestrator_service_pb2_grpc.OrchestratorServiceServicer):
    """Runs of other tenants are not there."""

    def __init__(self, runs: Runs, journal: Journal, follower: RegistryFollower) -> None:
        self._runs = runs
        self._journal = journal
        self._follower = follower

    async def SubmitRun(self, request: pb.SubmitRunRequest, context: Any) -> pb.SubmitRunResponse:
        check_submit(request)
        submission = await self._submission(request)
        run_id, created = await self._runs.submit(submission, payload_hash(request))
        if request.HasField("wait"):
            await self._wait(run_id, seconds_of(request.wait))
        return pb.SubmitRunResponse(run=await self._run(run_id), repeated_before=not created)

    async def _submission(self, request: pb.SubmitRunRequest) -> Submission:
        roles, edges, wants = await self._follower.choose(request.roles, request.capabilities, request.versions)
        said = run_pb2.Submitted(goal=request.goal, metadata=request.metadata)
        if request.HasField("trace"):
            said.trace.CopyFrom(request.trace)
        elif context.current().traceparent:
            said.trace.traceparent = context.current().traceparent
            said.trace.tracestate = context.current().tracestate
        if request.HasField("budget"):
            said.budget.CopyFrom(request.budget)
        return Submission(
            run_id=self._runs.new_id(),
            tenant=context.current().tenant,
            request_id=request.request_id,
            session_id=request.session_id,
            strategy="pipeline",
            roles=roles,
            edges=edges,
            timeout=quantize(seconds_of(request.timeout)) if request.HasField("timeout") else DEFAULT_TIMEOUT,
            goal=said,
            wants=wants,
        )

    async def _wait(self, run_id: str, seconds: float) -> None:
        """Until the run has ended, or the caller must have its answer."""
        left = context.current().remaining()
        bound = seconds if left is None else min(seconds, max(0.0, left - ANSWER_MARGIN))
        try:
            async with asyncio.timeout(bound):
                await self._runs.finished(run_id)
        except TimeoutError:
            return

    async def _row(self, run_id: str) -> RunRow:
        row = await self._journal.run(run_id)
        if row is None or row.tenant != context.current().tenant:
            raise UnknownRun(f"no run has the id {run_id!r}", metadata={"run_id": run_id})
        return row

    async def _run(self, run_id: str) -> run_pb2.Run:
        row = await self._row(run_id)
        if row.compacted:
            return run_pb2.Run.FromString(row.summary)
        return run_to_proto(await self._runs.state(run_id))

    async def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.GetRunResponse:
        return pb.GetRunResponse(run=await self._run(request.run_id))

    async def WatchRun(self, request: pb.WatchRunRequest, context: Any) -> AsyncIterator[pb.WatchRunResponse]:
        row = await self._row(request.run_id)
        if row.compacted:
            raise RunExpired(f"the events of run {request.run_id} are gone, GetRun has its answers")
        if not 0 <= request.after_seq <= row.last_seq:
            raise OutOfRange(
                f"after_seq is {request.after_seq}, the run's last event is {row.last_seq}",
                metadata={"last_seq": str(row.last_seq)},
            )
        if row.ended_at and request.after_seq == row.last_seq:
            return
        follow = self._runs.watchers.follow(request.run_id, request.after_seq, durable_only=request.durable_only)
        async for events in follow:
            yield pb.WatchRunResponse(events=events)

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        filters = (request.session_id, tuple(request.states))
        position = read_token(request.page_token, "runs", *filters)
        size = page_size(request.page_size)
        rows = await self._journal.runs(
            tenant=_tenant(),
            session_id=request.session_id,
            states=request.states,
            before=(position[0], position[1]) if position else None,
            limit=size + 1,
        )
        page, more = rows[:size], len(rows) > size
        token = make_token([page[-1].created_at, page[-1].run_id], "runs", *filters) if more else ""
        return pb.ListRunsResponse(runs=[row_to_proto(row) for row in page], next_page_token=token)

    async def ListRunRecords(self, request: pb.ListRunRecordsRequest, context: Any) -> pb.ListRunRecordsResponse:
        await self._row(request.run_id)
        filters = (request.run_id, request.role)
        after = read_token(request.page_token, "records", *filters) or 0
        size = page_size(request.page_size)
        rows = await self._journal.records(request.run_id, role=request.role, after=after, limit=size + 1)
        out, total = pb.ListRunRecordsResponse(), 0
        for ordinal, data in rows[:size]:
            total += len(data)
            if out.records and total > MAX_RECORD_PAGE_BYTES:
                break
            record = run_pb2.RunRecord.FromString(data)
            record.ordinal = ordinal
            out.records.append(record)
        if len(out.records) < len(rows):
            out.next_page_token = make_token(out.records[-1].ordinal, "records", *filters)
        return out

    async def CancelRun(self, request: pb.CancelRunRequest, context: Any) -> pb.CancelRunResponse:
        await self._row(request.run_id)
        durable = _Durable()
        self._runs.deliver(request.run_id, Delivery(inp.Cancel(_identity(), request.reason), durable))
        await durable.wait()
        return pb.CancelRunResponse(run=await self._run(request.run_id))

    Respond = PauseRun = ResumeRun = PlanRun = EditPlan = ForkRun = RateRun = Converse = _not_served  # type: ignore[assignment]


class _Durable:
    """A receipt that a caller waits for."""

    def __init__(self) -> None:
        self._done = asyncio.Event()

    def accept(self) -> None:
        self._done.set()

    def discard(self, reason: str) -> None:
        self._done.set()

    async def wait(self) -> None:
        try:
            async with asyncio.timeout(context.timeout(10.0)):
                await self._done.wait()
        except TimeoutError:
            raise Unavailable("the run is being moved, try again", retry_delay=1.0) from None


def _tenant() -> str:
    return context.current().tenant


def _identity() -> str:
    return context.current().identity
