"""The commands about runs, common to all RPCs: submit, wait, read, watch. Runs of other tenants do not exist here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from archon import context
from archon.api.common.v1 import failure_pb2, question_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import (
    ArchonError,
    DataLoss,
    FieldViolation,
    InvalidArgument,
    OutOfRange,
    QuotaExceeded,
    RunExpired,
    Unavailable,
    UnknownRun,
)
from archon.learning import CHOICES_KEY, variants_of
from archon.principal import DEFAULT_TENANT
from archon.security.policy_file import own_policy
from archon.wire import text_of
from archon_mesh.core.people import Breakpoint, InterceptionRule
from archon_mesh.engine.types import PLAN, WITHOUT_PLANNER, Submission
from archon_services.common.tenants import role_key
from archon_services.orchestrator.api.breakpoints import requested_breakpoints
from archon_services.orchestrator.api.control import RunControl
from archon_services.orchestrator.api.fork import RunForks
from archon_services.orchestrator.api.given_plan import given_plan, has_planner
from archon_services.orchestrator.api.learning import LearnedVersions
from archon_services.orchestrator.api.marks import RunMarks
from archon_services.orchestrator.api.plan_preview import PlanPreview
from archon_services.orchestrator.api.plans import RunPlans
from archon_services.orchestrator.api.questions import OpenQuestions
from archon_services.orchestrator.api.quotas import QuotaReports
from archon_services.orchestrator.api.ratings import RunRatings
from archon_services.orchestrator.api.rules import applicable_rules
from archon_services.orchestrator.api.strategy_choice import choose_strategy
from archon_services.orchestrator.api.validation import check_submit, payload_hash, strategy_of, time_of
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.convert import events_of, from_journal
from archon_services.orchestrator.convert.budget import budget_from_proto
from archon_services.orchestrator.convert.plan import plan_target, target_from_proto, within_size
from archon_services.orchestrator.convert.run import session_context_from_proto
from archon_services.orchestrator.convert.run_view import Standing, row_to_proto, run_to_proto
from archon_services.orchestrator.journal import Journal, NewRun, RunRow
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.journal.retained import details_removed
from archon_services.orchestrator.learning.choice import write_choices
from archon_services.orchestrator.learning.learner import Learner
from archon_services.orchestrator.observability.context import begin_trace, write_submitter
from archon_services.orchestrator.roles.pinning import pinned
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.roles.selection import Participants
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.states.kept import NOTHING_KEPT, Kept
from archon_services.orchestrator.shared_memory.recall import SessionRecall
from archon_services.orchestrator.watch.forward import WatchForwarder
from archon_services.orchestrator.watch.hub import Tail

ANSWER_MARGIN: Final = 0.2
"""Seconds before the caller's deadline at which a waiting call answers."""


class Commands:
    """Raises Archon's errors."""

    def __init__(
        self,
        runs: Runs,
        journal: Journal,
        roles: RegistryWatch,
        forwarder: WatchForwarder,
        now: Callable[[], float],
        recall: SessionRecall | None = None,
        standing: Standing | None = None,
        rules: Sequence[InterceptionRule] = (),
        audit: AuditRecord | None = None,
        learner: Learner | None = None,
    ) -> None:
        """`now` gives wall seconds; `recall` is None if there is no shared memory; `standing` tells about instances;
        `rules` say when people are asked; `learner` is None if the orchestrator does not learn."""
        self._audit = audit or AuditRecord(journal, lambda: runs.owner, now, runs.on_audit)
        self.control = RunControl(runs, journal, now, self._audit)
        self.plans = RunPlans(runs, self.control, self.watch, now)
        self.questions = OpenQuestions(runs, journal)
        self.ratings = RunRatings(journal, runs.track_records, now, self._audit)
        self.marks = RunMarks(journal, now, self._audit)
        self.learning = LearnedVersions(learner, self._audit)
        self._learner = learner
        self.quotas = QuotaReports(runs.quotas, roles)
        self._preview = PlanPreview(lambda: roles.selection.instances, now)
        self._forks = RunForks(runs, journal, self._audit, rules)
        self._rules = rules
        self._policy = own_policy()
        self._runs = runs
        self._journal = journal
        self._roles = roles
        self._forwarder = forwarder
        self._recall = recall
        self._standing = standing

    async def submit(
        self,
        request: pb.SubmitRunRequest,
        *,
        wait: float = 0.0,
        attach: Callable[[str], object] | None = None,
        payload: bytes = b"",
    ) -> tuple[str, bool]:
        """Creates a run, durable on return. Returns (run_id, True), or (the run of the same request, False). With
        `wait` it returns when the run has ended, at the latest after so many seconds. `attach` is called with the run's
        id before its first step is stored. `payload` identifies the request to requests of its id; by default its hash.

        Raises RunExpired if the same request's run was deleted after its time: the request id is remembered for
        longer."""
        run_id, created = await self._submit(request, wait, attach, payload)
        await self._check_kept(request.request_id, run_id, created=created)
        if not created and wait > 0:
            await self.wait(run_id, wait)
        return run_id, created

    async def fork(self, request: pb.ForkRunRequest) -> tuple[str, bool]:
        """Creates a run that reuses the finished tasks of another one, durable on return. Returns (run_id, True), or
        (the run of the same request, False).

        Raises UnknownRun, RunExpired, InvalidArgument, RequestIdReused, DataLoss, and the errors of a submit."""
        run_id, created = await self._forks.accepted(request), False
        if not run_id:
            run_id, created = await self._forks.fork(request, await self.row(request.run_id))
        await self._check_kept(request.request_id, run_id, created=created)
        return run_id, created

    async def plan_fork(self, request: pb.ForkRunRequest) -> pb.ForkRunResponse:
        """Returns the tasks that a fork would begin with, without creating a run. Raises as `fork` does."""
        return await self._forks.preview(request, await self.row(request.run_id))

    async def _check_kept(self, request_id: str, run_id: str, *, created: bool) -> None:
        """Raises RunExpired if the run that an earlier request created was deleted."""
        if not created and self._runs.held(run_id) is None and await self._journal.run(run_id) is None:
            raise RunExpired(
                f"request id {request_id!r} created run {run_id}, which was deleted after its time",
                metadata={"request_id": request_id, "run_id": run_id},
            )

    async def _submit(
        self, request: pb.SubmitRunRequest, wait: float, attach: Callable[[str], object] | None, payload: bytes
    ) -> tuple[str, bool]:
        check_submit(request)
        payload = payload or (payload_hash(request) if request.request_id else b"")
        try:
            submission = await self._submission(request)
        except ArchonError:
            if (same := await self.accepted(request.request_id, payload)) is None:
                raise
            return same, False
        kept = Kept(plan=given_plan(submission, request.plan_json)) if request.plan_json else NOTHING_KEPT
        if request.breakpoints:
            kept = replace(kept, breakpoints=self.breakpoints(request.breakpoints), identity=context.current().identity)
        if attach is not None:
            attach(submission.run_id)
        bound = self._bound(wait) if wait > 0 else 0.0
        audit = self._audit.row("run.submit", run_id=submission.run_id, details=_facts(submission))
        try:
            run_id, created = await self._runs.submit(submission, payload, bound, kept=kept, audit=audit)
        except QuotaExceeded:
            if (same := await self.accepted(request.request_id, payload)) is None:
                raise
            return same, False
        if created and bound and self._journal.shared and self._runs.held(run_id) is None:
            await self.wait(run_id, wait)  # another replica has taken it over
        return run_id, created

    def breakpoints(self, requested: Iterable[question_pb2.Breakpoint]) -> tuple[Breakpoint, ...]:
        """Returns the breakpoints of a request. Raises as `requested_breakpoints` does."""
        return requested_breakpoints(requested, self._policy)

    async def accepted(self, request_id: str, payload: bytes) -> str | None:
        """Returns the run that the same request created before, None if there is none: a request that was accepted
        before stays accepted, whichever instances live by now, and whatever quotas are used up. Raises
        RequestIdReused."""
        accepted = await self._journal.request(_tenant(), request_id) if request_id else None
        if accepted is None:
            return None
        new = NewRun("", _tenant(), request_id, payload, "", "")
        return same_request(accepted[0], new, accepted[1]).run_id

    async def plan(self, request: pb.SubmitRunRequest) -> pb.PlanRunResponse:
        """Returns the tasks that a submit would create, and the plan that its planner makes, without creating a run.
        Raises the errors of a submit about its request, and the errors of `PlanPreview.plan`."""
        check_submit(request)
        submission = await self._submission(request)
        response = self.plans.tasks_of(submission)
        if submission.strategy == PLAN:
            response.plan.CopyFrom(await self._preview.plan(submission, self._runs.owner))
        return response

    async def choose_strategy(self, request: pb.SubmitRunRequest) -> pb.PlanRunResponse:
        """Returns the strategy and the roles that fit a goal, and why. Raises InvalidArgument if the request has a
        strategy, and the errors of `choose_strategy` of `strategy_choice`."""
        if request.strategy != run_pb2.STRATEGY_UNSPECIFIED:
            violations = [FieldViolation("submit.strategy", "must not be set")]
            raise InvalidArgument("the request has a strategy already", field_violations=violations)
        as_plan = pb.SubmitRunRequest()  # the only strategy with which a planner may be named
        as_plan.CopyFrom(request)
        as_plan.strategy = run_pb2.STRATEGY_PLAN
        check_submit(as_plan)
        selection, goal = self._roles.selection, text_of(request.goal)
        return await self._roles.selected(
            lambda: choose_strategy(goal, selection.newest_instances(), request.roles, request.planner)
        )

    async def _submission(self, request: pb.SubmitRunRequest) -> Submission:
        strategy = strategy_of(request)
        chosen = await self._choose(request, strategy)
        if request.pin_versions:
            chosen = pinned(chosen, self._roles.selection.instances.values())
        goal = run_pb2.Submitted(goal=request.goal, metadata=request.metadata)
        run_id = self._runs.new_id()
        begin_trace(goal, run_id, request.trace if request.HasField("trace") else None)
        write_submitter(goal)
        goal.metadata.pop(CHOICES_KEY, None)
        if self._learner is not None:
            self._write_choices(self._learner, run_id, goal)
        if request.HasField("budget"):
            goal.budget.CopyFrom(request.budget)
        if request.session_id and chosen.readers and self._recall is not None:
            await self._recall.recall(goal, request.session_id, chosen, self._roles.selection.graph.roles)
        if chosen.plan_targets:
            records, tenant = self._runs.track_records, _tenant()
            targets = [
                plan_target(instance, records.average(tenant, instance.role)) for instance in chosen.plan_targets
            ]
            goal.plan_targets.extend(within_size(targets))
        return Submission(
            run_id=run_id,
            tenant=_tenant(),
            request_id=request.request_id,
            session_id=request.session_id,
            strategy=strategy,
            roles=chosen.roles,
            edges=chosen.edges,
            timeout=time_of(request),
            goal=goal,
            requirements=chosen.requirements,
            all_ancestors=chosen.all_ancestors,
            targets=tuple(target_from_proto(target) for target in goal.plan_targets) or chosen.targets,
            budget=budget_from_proto(request.budget),
            session_context=session_context_from_proto(goal.session_context),
            pause_timeout=self._runs.limits.pause_timeout,
            rules=applicable_rules(self._rules, _tenant()),
            check_alignment=request.check_alignment,
            plan_rules=None if has_planner(request) else WITHOUT_PLANNER,
        )

    def _write_choices(self, learner: Learner, run_id: str, goal: run_pb2.Submitted) -> None:
        """Records the prompt variants and the order of tools that the learned weights choose for the run."""
        newest = self._roles.selection.newest_instances()
        variants = {role: names for role, instance in newest.items() if (names := variants_of(instance.tags))}
        write_choices(learner.choices(_tenant(), run_id, variants, sorted(newest)), goal.metadata)

    async def _choose(self, request: pb.SubmitRunRequest, strategy: str) -> Participants:
        if strategy == PLAN:
            return await self._roles.choose_plan(
                request.planner,
                request.roles,
                request.capabilities,
                request.versions,
                has_planner=has_planner(request),
            )
        return await self._roles.choose(
            request.roles, request.capabilities, request.versions, agent=strategy == "agent"
        )

    def drives(self, run_id: str, tail: Tail) -> bool:
        """Whether everything that happens to a run from here on reaches `tail`: it is driven here, or its end is
        queued."""
        return self._runs.holds(run_id) or (bool(tail.queue) and tail.queue[-1].final)

    def _bound(self, seconds: float) -> float:
        remaining = context.current().remaining()
        return seconds if remaining is None else max(0.001, min(seconds, remaining - ANSWER_MARGIN))

    async def wait(self, run_id: str, seconds: float) -> None:
        """Returns when the run has ended, after so many seconds, or just before the caller's deadline."""
        try:
            async with asyncio.timeout(self._bound(seconds)):
                if self._runs.holds(run_id):
                    await self._runs.wait_until_finished(run_id)
                if self._journal.shared and self._runs.held(run_id) is None:
                    async for _ in self.watch(pb.WatchRunRequest(run_id=run_id, durable_only=True)):
                        pass
        except (TimeoutError, RunExpired):
            return

    async def row(self, run_id: str) -> RunRow:
        """Returns a run's row in the journal. Raises UnknownRun."""
        row = await self._journal.run(run_id)
        if row is None or row.tenant != _tenant():
            raise UnknownRun(f"there is no run {run_id!r}", metadata={"run_id": run_id})
        return row

    async def run(self, run_id: str) -> run_pb2.Run:
        """Returns a run. Raises UnknownRun."""
        held = self._runs.held(run_id)
        if held is not None and held.submission is not None and held.submission.tenant == _tenant():
            return run_to_proto(held, self._standing_in(_tenant()))
        row = await self.row(run_id)
        if row.ended_at and not row.compacted:
            try:
                state = await self._runs.state(run_id)
                if state.ended:
                    return run_to_proto(state)
            except DataLoss:
                if (run := await self._quarantined(row)) is not None:
                    return run
                raise
            except UnknownRun:
                pass
            row = await self.row(run_id)  # its events were deleted while they were read
        if row.compacted:
            return from_journal(run_pb2.Run, row.summary, run_id)
        return run_to_proto(await self._runs.state(run_id))

    def _standing_in(self, tenant: str) -> Standing | None:
        """Returns how many instances of a tenant can take a task."""
        standing = self._standing
        if standing is None or tenant == DEFAULT_TENANT:
            return standing
        return lambda want: standing(replace(want, role=role_key(tenant, want.role)))

    async def _quarantined(self, row: RunRow) -> run_pb2.Run | None:
        """Returns the known data of a quarantined run, whose events need not be readable; None if the run ended in
        another way, and so has answers that are lost."""
        run = row_to_proto(row)
        for step in await self._journal.steps(row.run_id, row.last_seq - 1):
            run.failure.CopyFrom(events_of(step.data, row.run_id)[-1].run_state.failure)
        return run if run.failure.reason == failure_pb2.ERROR_REASON_QUARANTINED else None

    async def watch(self, request: pb.WatchRunRequest, *, relayed: bool = False) -> AsyncGenerator[bytes, None]:
        """Yields batches of events, each a serialised WatchRunResponse; ends after the run's last event. `relayed`: the
        caller is another replica, which takes this one for the run's owner.

        Raises UnknownRun, RunExpired, OutOfRange, Unavailable."""
        row = await self.row(request.run_id)
        if row.compacted:
            raise details_removed(request.run_id)
        if not 0 <= request.after_seq <= row.last_seq:
            raise OutOfRange(
                f"after_seq is {request.after_seq}, the run's last event is {row.last_seq}",
                metadata={"last_seq": str(row.last_seq)},
            )
        if row.ended_at and request.after_seq == row.last_seq:
            return
        if relayed and not self._runs.holds(request.run_id):
            raise Unavailable(f"run {request.run_id} is not owned by this replica")
        follow = self._runs.watchers.follow(request.run_id, request.after_seq, durable_only=request.durable_only)
        async with self._forwarder.following(request.run_id, relayed=relayed), aclosing(follow):
            async for batch in follow:
                yield batch


def _facts(submission: Submission) -> dict[str, object]:
    """The facts of a submit for the audit log, without the goal."""
    return {"strategy": submission.strategy, "roles": list(submission.roles), "request_id": submission.request_id}


def _tenant() -> str:
    return context.current().tenant
