"""The commands about plans: listing the tasks that a submit would create, and edits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import Aborted, ArchonError, FailedPrecondition, FieldViolation, InvalidArgument, Unavailable
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.types import Submission
from archon_services.orchestrator.api.control import RunControl
from archon_services.orchestrator.convert.failures import failure_as_error
from archon_services.orchestrator.convert.run_view import run_to_proto
from archon_services.orchestrator.dispatch.step import goal_text
from archon_services.orchestrator.journal import RunRow
from archon_services.orchestrator.runs.manager import Runs

TIMEOUT: Final = 10.0
"""Seconds that an edit waits until it is durable or refused."""

Watch = Callable[[pb.WatchRunRequest], AsyncGenerator[bytes, None]]


class RunPlans:
    """Plans of runs, whichever replica owns them. `watch` follows the events of a run; `now` returns wall seconds."""

    def __init__(self, runs: Runs, control: RunControl, watch: Watch, now: Callable[[], float]) -> None:
        self._runs = runs
        self._control = control
        self._watch = watch
        self._now = now

    def tasks_of(self, submission: Submission) -> pb.PlanRunResponse:
        """Returns the tasks that a run begins with, and its edges; the tasks of a plan's steps come with the plan."""
        run, now = RunState(), self._now()
        for event in decide(run, inp.Submit(submission, self._runs.owner, 1), now):
            apply(run, event, now)
        rendered = run_to_proto(run)
        return pb.PlanRunResponse(tasks=rendered.tasks, edges=rendered.edges)

    async def edit(self, row: RunRow, request: pb.EditPlanRequest) -> None:
        """Replaces the part of the plan that has not begun; durable on return.

        Raises InvalidArgument if the text is no plan, or a plan with faults, Aborted if the plan has changed since
        `expected_seq`, FailedPrecondition if the run has ended or has no plan, or the edit touches steps that have
        begun, and Unavailable if the outcome is unknown."""
        if row.ended_at:
            raise FailedPrecondition(f"run {row.run_id} has ended", metadata={"run_id": row.run_id})
        state = await self._runs.state(row.run_id)
        edit = self._parsed(state, request)
        _check(state, edit)
        await self._control.edit_plan(row, edit)
        try:
            async with asyncio.timeout(context.timeout(TIMEOUT)):
                await self._confirm(row.run_id, edit)
        except TimeoutError:
            _check(await self._runs.state(row.run_id), edit)
            raise Unavailable("the outcome of the edit is unknown: read the plan", retry_delay=1.0) from None

    def _parsed(self, state: RunState, request: pb.EditPlanRequest) -> inp.EditPlan:
        from archon_mesh.planning import parse_plan  # only runs with a plan need it

        try:
            plan = parse_plan(request.plan_json, goal_text(state), "")
        except ArchonError as error:
            violations = [FieldViolation("plan_json", error.message)]
            raise InvalidArgument(f"plan_json: {error.message}", field_violations=violations) from None
        return inp.EditPlan(context.current().identity, self._runs.new_id(), request.expected_seq, plan)

    async def _confirm(self, run_id: str, edit: inp.EditPlan) -> None:
        """Returns once the edit is among the run's events. Raises the error that refused it."""
        held = self._runs.held(run_id)
        if held is not None and (held.plan is None or held.plan.edit_id != edit.edit_id):
            _check(held, edit)  # this replica has decided about it
        watched = pb.WatchRunRequest(run_id=run_id, after_seq=edit.expected_seq, durable_only=True)
        async with aclosing(self._watch(watched)) as batches:
            async for batch in batches:
                for event in pb.WatchRunResponse.FromString(batch).events:
                    if event.HasField("planned"):
                        if event.planned.edit_id == edit.edit_id:
                            return
                        raise Aborted(f"event {event.seq} changed the plan first: read it again")
        raise FailedPrecondition(f"run {run_id} has ended", metadata={"run_id": run_id})


def _check(state: RunState, edit: inp.EditPlan) -> None:
    if (refusal := edit_refusal(state, edit)) is not None:
        raise failure_as_error(refusal)
