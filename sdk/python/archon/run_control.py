"""Calls about runs that exist: their state, their questions, and the actions of people on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.errors import (
    InvalidArgument,
)
from archon.pages import listed, pages
from archon.submission import Goal, content
from archon.types.breakpoint import to_breakpoint
from archon.types.plan import Plan
from archon.types.run import Run
from archon.types.run_question import RunQuestion
from archon.types.run_record import RunRecord
from archon.types.task_state import TaskState
from archon.wire import set_seconds

CALL_TIMEOUT: Final = 10.0
EDIT_TIMEOUT: Final = 15.0


class RunControl:
    """Reads, steers and rates runs by their id, over a stub of the orchestrator."""

    _stub: orchestrator_service_pb2_grpc.OrchestratorServiceAsyncStub

    async def get(self, run_id: str) -> Run:
        """The current state of a run. Raises UnknownRun."""
        return Run((await self._stub.GetRun(pb.GetRunRequest(run_id=run_id), timeout=CALL_TIMEOUT)).run)

    async def list_runs(
        self,
        *,
        limit: int = 100,
        session_id: str = "",
        states: Collection[TaskState] = (),
        text: str = "",
        since: float = 0.0,
        until: float = 0.0,
    ) -> list[Run]:
        """The newest runs first, at most `limit`, without tasks and answers. `states` are those to list, by default
        all. With `text` only runs that have it in their id, session, goal, roles or metadata, without regard to case;
        with `since` and `until` (seconds since the epoch) only runs that were submitted from then on, or before then.
        Raises InvalidArgument if the text is longer than 200 characters."""
        request = pb.ListRunsRequest(
            session_id=session_id, states=[TaskState(each).proto for each in states], text=text
        )
        if since:
            set_seconds(request.created_since, since)
        if until:
            set_seconds(request.created_before, until)
        return await listed(self._stub.ListRuns, request, "runs", Run, timeout=CALL_TIMEOUT, limit=limit)

    async def records(self, run_id: str, *, role: str = "") -> AsyncIterator[RunRecord]:
        """The recorded model and tool calls of a run, in order. Raises UnknownRun."""
        request = pb.ListRunRecordsRequest(run_id=run_id, role=role)
        async for page in pages(self._stub.ListRunRecords, request, timeout=CALL_TIMEOUT):
            for record in page.records:
                yield RunRecord(record)

    async def cancel(self, run_id: str, reason: str = "") -> Run:
        """Requests that a run be cancelled; it has ended once its state is final. Raises UnknownRun."""
        request = pb.CancelRunRequest(run_id=run_id, reason=reason)
        return Run((await self._stub.CancelRun(request, timeout=CALL_TIMEOUT)).run)

    async def list_questions(self, *, limit: int = 1000) -> list[RunQuestion]:
        """The open questions of all runs to people, at least `limit` of them if there are so many, the newest run's
        first."""
        call, request = self._stub.ListQuestions, pb.ListQuestionsRequest()
        return await listed(call, request, "questions", RunQuestion, timeout=CALL_TIMEOUT, limit=limit)

    async def respond(
        self, run_id: str, input_id: str, answer: Goal = "", *, decision: str = "", request_id: str = ""
    ) -> Run:
        """Answers a question of a run (`run.questions`, the events `input_requested` and `approval_requested`).
        Repeating the same answer is no error.

        An approval takes a `decision`: `approve` or `reject`, with `answer` as its reason, or `modify`, with the
        replacement: the arguments of a tool or a plan as one JSON object, or an answer.

        Raises UnknownRun, FailedPrecondition (there is no such question), PermissionDenied (the question has other
        approvers), InvalidArgument (the answer does not match its schema, or is no decision), RequestIdReused,
        MessageTooLarge."""
        parts = content(answer, "the answer") if answer or not decision else []
        request = pb.RespondRequest(
            run_id=run_id, input_id=input_id, parts=parts, request_id=request_id, decision=_decision(decision)
        )
        return Run((await self._stub.Respond(request, timeout=CALL_TIMEOUT)).run)

    async def edit_plan(self, run_id: str, plan: Plan | str, *, expected_seq: int = 0) -> Run:
        """Replaces the steps of a run's plan that have not begun by the steps of `plan`, which is `run.plan` with other
        steps, or a text in the JSON that planners reply. `expected_seq` is `run.plan.change_seq` of the plan that was
        edited, by default `plan.change_seq`; a text needs it.

        Raises UnknownRun, InvalidArgument if the text is no plan or the plan has faults (`field_violations`), Aborted
        if the plan has changed since, FailedPrecondition if the run has ended or has no plan, or the edit changes
        begun steps.
        """
        plan_json = plan if isinstance(plan, str) else plan.to_json()
        if not isinstance(plan, str):
            expected_seq = expected_seq or plan.change_seq
        request = pb.EditPlanRequest(run_id=run_id, expected_seq=expected_seq, plan_json=plan_json)
        return Run((await self._stub.EditPlan(request, timeout=EDIT_TIMEOUT)).run)

    async def pause(self, run_id: str) -> Run:
        """Pauses a run: no further tasks are dispatched until `resume`, tasks in progress continue, and the run's clock
        stops. Raises UnknownRun, FailedPrecondition if the run has ended."""
        return Run((await self._stub.PauseRun(pb.PauseRunRequest(run_id=run_id), timeout=CALL_TIMEOUT)).run)

    async def resume(self, run_id: str) -> Run:
        """Resumes a paused run. Raises as `pause` does."""
        return Run((await self._stub.ResumeRun(pb.ResumeRunRequest(run_id=run_id), timeout=CALL_TIMEOUT)).run)

    async def set_breakpoints(self, run_id: str, breakpoints: Sequence[str]) -> Run:
        """Sets the breakpoints of a run, in place of all that it has: `tool:NAME`, `model`, `model:ROLE`, `task:ROLE`,
        `step:NAME`; names are patterns. An empty sequence removes them. Raises UnknownRun, InvalidArgument,
        FailedPrecondition if the run has ended, PermissionDenied if the caller may not pause it."""
        request = pb.SetBreakpointsRequest(run_id=run_id, breakpoints=map(to_breakpoint, breakpoints))
        return Run((await self._stub.SetBreakpoints(request, timeout=CALL_TIMEOUT)).run)

    async def rate(self, run_id: str, stars: int, comment: str = "") -> None:
        """Rates a run that has ended, from 1 (bad) to 5 (good) stars, in place of the caller's earlier rating. The
        rating counts in the records of the instances that completed tasks of the run.

        Raises UnknownRun, FailedPrecondition if the run has not ended, InvalidArgument, and ResourceExhausted if the
        run has too many ratings."""
        request = pb.RateRunRequest(run_id=run_id, stars=max(-1, min(stars, 99)), comment=comment)
        await self._stub.RateRun(request, timeout=CALL_TIMEOUT)

    async def mark(self, run_id: str, reason: str = "") -> None:
        """Marks a run as of interest, in place of the caller's earlier mark: rules of retention can keep the details of
        marked runs. Raises UnknownRun, InvalidArgument, and ResourceExhausted if the run has too many marks."""
        await self._stub.MarkRun(pb.MarkRunRequest(run_id=run_id, reason=reason), timeout=CALL_TIMEOUT)

    async def unmark(self, run_id: str) -> None:
        """Removes all marks of a run. Raises UnknownRun."""
        await self._stub.MarkRun(pb.MarkRunRequest(run_id=run_id, remove=True), timeout=CALL_TIMEOUT)


def _decision(name: str) -> question_pb2.Decision.ValueType:
    if name and f"DECISION_{name.upper()}" not in question_pb2.Decision.keys()[1:]:
        raise InvalidArgument(f"unknown decision {name!r}; use approve, reject or modify")
    return question_pb2.Decision.Value(f"DECISION_{name.upper() or 'UNSPECIFIED'}")
