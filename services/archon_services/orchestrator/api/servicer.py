"""The OrchestratorService: decodes requests, calls one interface, encodes responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from archon import context as call
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.wire import MAX_CHECKED_BYTES, to_seconds
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.converse_stream import ConverseStream
from archon_services.orchestrator.api.run_search import RunFilter, RunSearch
from archon_services.orchestrator.api.validation import check_edit
from archon_services.orchestrator.convert.recorded_step import step_to_proto
from archon_services.orchestrator.convert.run_view import bounded, row_to_proto, trimmed
from archon_services.orchestrator.convert.stored_record import record_from_journal
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.journal.retained import details_removed
from archon_services.orchestrator.watch.forward import RELAYED
from archon_services.orchestrator.watch.hub import WatchHub

SERVICE = "archon.api.orchestrator.v1.OrchestratorService"
MAX_RECORD_PAGE_BYTES = 3 * 1024 * 1024
MAX_RECORD_READ_BYTES = MAX_RECORD_PAGE_BYTES + MAX_CHECKED_BYTES
"""More than a page, so that it shows whether there is another page."""


class OrchestratorServicer(orchestrator_service_pb2_grpc.OrchestratorServiceServicer):
    """Streams of events are answered with serialised messages."""

    def __init__(self, commands: Commands, journal: Journal, hub: WatchHub) -> None:
        self._commands = commands
        self._journal = journal
        self._search = RunSearch(journal)
        self._hub = hub

    async def SubmitRun(self, request: pb.SubmitRunRequest, context: Any) -> pb.SubmitRunResponse:
        wait = to_seconds(request.wait) if request.HasField("wait") else 0.0
        run_id, created = await self._commands.submit(request, wait=wait)
        return pb.SubmitRunResponse(run=trimmed(await self._commands.run(run_id)), repeated_before=not created)

    async def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.GetRunResponse:
        run = await self._commands.run(request.run_id)
        await self._commands.ratings.add_to(run)
        await self._commands.marks.add_to(run)
        if request.view == pb.RUN_VIEW_BASIC:
            run.ClearField("tasks")
        return pb.GetRunResponse(run=bounded(run))

    async def WatchRun(self, request: pb.WatchRunRequest, context: Any) -> AsyncIterator[Any]:
        relayed = RELAYED in (context.invocation_metadata() or ())
        with self._commands.quotas.stream(relayed=relayed):
            async with aclosing(self._commands.watch(request, relayed=relayed)) as batches:
                async for batch in batches:
                    yield batch

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        wanted = RunFilter.of(request, call.current().tenant)
        position = read_token(request.page_token, "runs", *wanted.key, like=[0.0, ""])
        after = (position[0], position[1]) if position else None
        page, next_page = await self._search.page(wanted, after, page_size(request.page_size))
        token = make_token(list(next_page), "runs", *wanted.key) if next_page is not None else ""
        return pb.ListRunsResponse(runs=[row_to_proto(row) for row in page], next_page_token=token)

    async def ListRunRecords(self, request: pb.ListRunRecordsRequest, context: Any) -> pb.ListRunRecordsResponse:
        row = await self._commands.row(request.run_id)
        if row.compacted:
            raise details_removed(row.run_id)
        filters = (request.run_id, request.role)
        after = read_token(request.page_token, "records", *filters, like=0) or 0
        size = page_size(request.page_size)
        rows = await self._journal.records(
            request.run_id, role=request.role, after=after, limit=size + 1, max_bytes=MAX_RECORD_READ_BYTES
        )
        out, total = pb.ListRunRecordsResponse(), 0
        for ordinal, data in rows[:size]:
            record = record_from_journal(data, request.run_id)
            total += record.ByteSize()
            if out.records and total > MAX_RECORD_PAGE_BYTES:
                break
            record.ordinal = ordinal
            out.records.append(record)
        if len(out.records) < len(rows):
            out.next_page_token = make_token(out.records[-1].ordinal, "records", *filters)
        return out

    async def ListRunSteps(self, request: pb.ListRunStepsRequest, context: Any) -> pb.ListRunStepsResponse:
        row = await self._commands.row(request.run_id)
        if row.compacted:
            raise details_removed(row.run_id)
        after = read_token(request.page_token, "steps", request.run_id, like=0) or 0
        size = page_size(request.page_size)
        steps = await self._journal.recorded_steps(
            request.run_id, after_seq=after, limit=size + 1, max_bytes=MAX_RECORD_READ_BYTES
        )
        out, total = pb.ListRunStepsResponse(last_seq=row.last_seq, ended=row.ended_at > 0), 0
        for step in steps[:size]:
            total += len(step.data) + len(step.inputs)
            if out.steps and total > MAX_RECORD_PAGE_BYTES:
                break
            out.steps.append(step_to_proto(step))
        if len(out.steps) < len(steps):
            out.next_page_token = make_token(steps[len(out.steps)].base, "steps", request.run_id)
        return out

    async def CancelRun(self, request: pb.CancelRunRequest, context: Any) -> pb.CancelRunResponse:
        await self._commands.control.cancel(await self._commands.row(request.run_id), request.reason)
        return pb.CancelRunResponse(run=trimmed(await self._commands.run(request.run_id)))

    async def Converse(self, request_iterator: AsyncIterator[pb.ConverseRequest], context: Any) -> AsyncIterator[Any]:
        with self._commands.quotas.stream():
            async with ConverseStream(self._commands, self._hub, request_iterator) as stream:
                while response := await stream.next():
                    yield response

    async def Respond(self, request: pb.RespondRequest, context: Any) -> pb.RespondResponse:
        await self._commands.control.respond(await self._commands.row(request.run_id), request)
        return pb.RespondResponse(run=trimmed(await self._commands.run(request.run_id)))

    async def ListQuestions(self, request: pb.ListQuestionsRequest, context: Any) -> pb.ListQuestionsResponse:
        position = read_token(request.page_token, "questions", like=[0.0, ""])
        before = (position[0], position[1]) if position else None
        questions, last = await self._commands.questions.page(before, page_size(request.page_size))
        token = make_token([last.created_at, last.run_id], "questions") if last is not None else ""
        return pb.ListQuestionsResponse(questions=questions, next_page_token=token)

    async def PauseRun(self, request: pb.PauseRunRequest, context: Any) -> pb.PauseRunResponse:
        await self._commands.control.pause(await self._commands.row(request.run_id))
        return pb.PauseRunResponse(run=trimmed(await self._commands.run(request.run_id)))

    async def ResumeRun(self, request: pb.ResumeRunRequest, context: Any) -> pb.ResumeRunResponse:
        await self._commands.control.resume(await self._commands.row(request.run_id))
        return pb.ResumeRunResponse(run=trimmed(await self._commands.run(request.run_id)))

    async def SetBreakpoints(self, request: pb.SetBreakpointsRequest, context: Any) -> pb.SetBreakpointsResponse:
        row = await self._commands.row(request.run_id)
        await self._commands.control.set_breakpoints(row, self._commands.breakpoints(request.breakpoints))
        return pb.SetBreakpointsResponse(run=trimmed(await self._commands.run(request.run_id)))

    async def ForkRun(self, request: pb.ForkRunRequest, context: Any) -> pb.ForkRunResponse:
        if request.dry_run:
            return await self._commands.plan_fork(request)
        run_id, _ = await self._commands.fork(request)
        return pb.ForkRunResponse(run=trimmed(await self._commands.run(run_id)))

    async def PlanRun(self, request: pb.PlanRunRequest, context: Any) -> pb.PlanRunResponse:
        if request.choose_strategy:
            return await self._commands.choose_strategy(request.submit)
        return await self._commands.plan(request.submit)

    async def EditPlan(self, request: pb.EditPlanRequest, context: Any) -> pb.EditPlanResponse:
        check_edit(request)
        await self._commands.plans.edit(await self._commands.row(request.run_id), request)
        return pb.EditPlanResponse(run=trimmed(await self._commands.run(request.run_id)))

    async def RateRun(self, request: pb.RateRunRequest, context: Any) -> pb.RateRunResponse:
        row = await self._commands.row(request.run_id)
        await self._commands.ratings.rate(row, await self._commands.run(request.run_id), request)
        return pb.RateRunResponse()

    async def ListInstanceMetrics(
        self, request: pb.ListInstanceMetricsRequest, context: Any
    ) -> pb.ListInstanceMetricsResponse:
        return self._commands.ratings.list_metrics(request)

    async def MarkRun(self, request: pb.MarkRunRequest, context: Any) -> pb.MarkRunResponse:
        await self._commands.marks.mark(await self._commands.row(request.run_id), request)
        return pb.MarkRunResponse()

    async def ListLearnedVersions(
        self, request: pb.ListLearnedVersionsRequest, context: Any
    ) -> pb.ListLearnedVersionsResponse:
        return await self._commands.learning.page(request)

    async def DecideLearnedVersion(
        self, request: pb.DecideLearnedVersionRequest, context: Any
    ) -> pb.DecideLearnedVersionResponse:
        return pb.DecideLearnedVersionResponse(version=await self._commands.learning.decide(request))

    async def RevertLearnedVersion(
        self, request: pb.RevertLearnedVersionRequest, context: Any
    ) -> pb.RevertLearnedVersionResponse:
        return pb.RevertLearnedVersionResponse(version=await self._commands.learning.revert(request))

    async def GetQuotas(self, request: pb.GetQuotasRequest, context: Any) -> pb.GetQuotasResponse:
        return self._commands.quotas.page(request)
