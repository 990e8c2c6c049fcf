"""The run of a plan in this process: its steps are executed by a worker, its plans are made by a planner."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, Final

from archon.clock import monotonic
from archon.errors import (
    ArchonError,
    BudgetExhausted,
    DataLoss,
    FailedPrecondition,
    InvalidArgument,
)
from archon.failure_kinds import RetryAdvice
from archon_mesh.core.people import InterceptionRule, Trigger, check_rules
from archon_mesh.engine import LocalRun, RunState
from archon_mesh.engine import Task as RunTask
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.decision import awaits_decision
from archon_mesh.engine.decisions import Candidate, resolve
from archon_mesh.engine.local_run import attempt_lost
from archon_mesh.engine.plan import (
    Plan,
    ReplanCounters,
    ReplanPolicy,
    SubTaskStatus,
    Task,
    find_faults,
    replan_reason,
    skip_dependants,
)
from archon_mesh.engine.plan.templates import as_text
from archon_mesh.engine.types import (
    APPROVAL_REJECTED,
    PLAN,
    PLAN_FAILED,
    QUESTION_TIMED_OUT,
    Amount,
    Failure,
    PlanRules,
    Submission,
    TaskState,
)
from archon_mesh.planning.alignment import AlignmentCheck, misalignment
from archon_mesh.planning.attempt_counts import AttemptCounts
from archon_mesh.planning.attempt_meter import AttemptMeter, RunReservation, bind_meter
from archon_mesh.planning.attempt_results import (
    completion,
    failed_result,
    failure_causes,
    has_failed,
    kept_result,
    spent_between,
    still_open,
    without_plan,
)
from archon_mesh.planning.attempts import (
    FATAL,
    MAX_ATTEMPTS,
    TIMEOUT,
    AttemptFailed,
    Attempts,
)
from archon_mesh.planning.check import ResultCheck
from archon_mesh.planning.errors import PlanFailed, PlanNotApproved
from archon_mesh.planning.events import PlanEvent, PlanEventHandler, PlanEventKind, report
from archon_mesh.planning.journal import PlanJournal
from archon_mesh.planning.plan_budget import UNLIMITED, PlanBudget
from archon_mesh.planning.plan_people import AttemptDesk, Forwarding, PlanPeople, error_of
from archon_mesh.planning.plan_source import PlanSource
from archon_mesh.planning.progress import KEPT, PlanProgress
from archon_mesh.planning.records import PlanRecords
from archon_mesh.planning.run_clock import run_clock
from archon_mesh.planning.suggestion import simpler_goal
from archon_mesh.planning.worker import Worker
from archon_mesh.tools.people.ask import bind_desk, current_desk

_log = logging.getLogger(__name__)

MAX_PARALLEL: Final = 8
"""Subtasks that are executed at the same time."""

RULED: Final = (Trigger.PLAN, Trigger.REPLAN, Trigger.CONFIDENCE, Trigger.CHECKPOINT, Trigger.ERROR)
"""The triggers of rules about plans."""

Combine = Callable[[Task], Awaitable[str]]
"""Writes one answer of the results of an executed plan."""

PLANNER: Final = "planner"
"""The role of the tasks that make plans. No agent is called by it."""

_WITHOUT_PLANNER: Final = ReplanPolicy(int(UNLIMITED), int(UNLIMITED), 0.0, 0, 0)

_ENDS: Final = frozenset({"BUDGET_EXHAUSTED", "RUN_TIMEOUT", "PAUSE_EXPIRED", APPROVAL_REJECTED, QUESTION_TIMED_OUT})
"""The reasons of a run's end that are no failure of its plan."""


class _NothingToDo(Exception):
    """A workflow has an answer, and no step."""


class PlanExecution:
    """The execution of one plan at a time, as a run of the engine. `PlanExecutor` has its options and its commands."""

    def __init__(
        self,
        worker: Worker,
        *,
        planner: PlanSource | None = None,
        policy: ReplanPolicy | None = None,
        check: ResultCheck | None = None,
        alignment: AlignmentCheck | None = None,
        max_parallel: int = MAX_PARALLEL,
        max_attempts: int = MAX_ATTEMPTS,
        timeout: float = TIMEOUT,
        on_event: PlanEventHandler | None = None,
        journal: PlanJournal | str | os.PathLike[str] | None = None,
        rules: Sequence[InterceptionRule] = (),
        budget: PlanBudget | None = None,
        pause_timeout: float = 0.0,
        takes_answers: bool = False,
        combine: Combine | None = None,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Raises InvalidArgument if a limit is out of range."""
        if max_parallel < 1 or max_attempts < 1 or timeout <= 0:
            raise InvalidArgument("max_parallel and max_attempts must be at least 1, and timeout above 0 s")
        if pause_timeout < 0:
            raise InvalidArgument("pause_timeout must be at least 0 s")
        check_rules(rules, RULED)
        self._worker = worker
        self._planner = planner
        policy = (policy or ReplanPolicy()) if planner is not None else _WITHOUT_PLANNER
        permanent = policy.failures_of_subtask if planner is not None else 1
        self._rules = PlanRules(policy, max_attempts, True, permanent)
        self._attempts = Attempts(worker, check=check, timeout=timeout)
        self._alignment = alignment
        self._max_parallel = max_parallel
        self._on_event = on_event
        self._budget = budget or PlanBudget()
        self._pause_timeout = pause_timeout
        self._asks = tuple(rules)
        self._takes_answers = takes_answers
        self._combine = combine
        self._people = PlanPeople(self._faults)
        self._forwarding: Forwarding | None = None
        self._journal = journal
        self._records: PlanRecords | None = None
        self._clock = clock
        self._sleep = sleep
        self._progress: PlanProgress | None = None
        self._run: LocalRun | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._counts = AttemptCounts(clock)
        self._made: Task | None = None
        """The first plan; None until the planner has made it."""
        self._context: Mapping[str, Any] = {}

        self._cause: ArchonError | None = None
        """Why the planner has made no plan."""

        self._is_misaligned = False
        """Whether the planner makes another plan because this one does not serve the query: no subtask begins."""

    def _check_idle(self) -> None:
        if self._run is not None and not self._run.over:
            raise FailedPrecondition("this executor is executing a plan already")

    async def _carry_out(self, made: Task | None, empty: Task, records: PlanRecords | None) -> Task:
        """Executes the plan that was `made`, or else the one that the planner makes in place of the `empty` one."""
        self._check_idle()
        self._made = made
        task = empty if made is None else made
        past = records.stored.events if records is not None else ()
        counts = self._counts = AttemptCounts(self._clock, is_past=bool(past))
        progress = self._progress = PlanProgress(task, counts.measured)
        self._cause, self._records = None, records
        self._people = PlanPeople(self._faults)
        self._attempts.begin()
        inputs: list[inp.Input] = [inp.Submit(self._submission(task.id), "", 1)]
        if not self._resumed.is_set():
            inputs.append(inp.Pause(""))
        try:
            self._run = run = LocalRun(
                inputs,
                self._attempt,
                may_start=self._may_start,
                decision=self._decision,
                observe=self._observe,
                after_turn=self._after_turn,
                clock=monotonic if records is None else run_clock(past[-1][1] if past else 0.0),
                sleep=self._sleep,
                journal=records,
                past=past,
                recover=self._recovered,
            )
        except Exception as error:
            raise DataLoss(f"the events of the journal make no plan ({error!r}): restore it, or begin anew") from error
        finally:
            counts.is_past = False
        if past:
            self._continue(run)
        desk = current_desk()
        self._forwarding = Forwarding(desk, self._people) if desk is not None else None
        try:
            state = await run.run()
        except _NothingToDo:
            assert self._made is not None
            return self._made
        finally:
            progress.stopped()
            if self._forwarding is not None:
                await self._forwarding.close()
        is_new = not past or not isinstance(past[-1][0], ev.RunEnded)
        if state.state is TaskState.COMPLETED:
            if is_new:
                await self._report(PlanEventKind.COMPLETED)
            return progress.task
        raise await self._failed(state, is_new=is_new) from self._cause

    def _submission(self, run_id: str) -> Submission:
        return Submission(
            run_id,
            "",
            "",
            "",
            PLAN,
            (PLANNER,),
            (),
            self._budget.seconds,
            None,
            budget=self._budget.limits,
            pause_timeout=self._pause_timeout,
            rules=self._asks,
            check_alignment=self._alignment is not None and self._planner is not None,
            plan_rules=self._rules,
        )

    def _faults(self, plan: Task) -> Sequence[tuple[str, str]]:
        """The faults of a plan that a person gives."""
        tools, roles = frozenset(self._worker.tools.names), frozenset(self._worker.roles)
        found = find_faults(plan, tools=tools, roles=roles, capabilities=roles)
        return [(fault.subtask_id, fault.message) for fault in found]

    def _continue(self, run: LocalRun) -> None:
        """Takes over from the process before. The events of the journal are not reported again."""
        self._counts.take_over(run.state.latest_time)
        self._current().continued(is_over=run.state.ended)
        if run.state.paused:
            self._resumed.clear()
        elif not self._resumed.is_set():
            run.give(inp.Pause(""))

    def _observe(self, run: RunState, event: ev.Event) -> None:
        if isinstance(event, (ev.Dispatched, ev.Retried, ev.ResultReceived)):
            self._counts.count(self._current(), run, event)
        self._people.observe(event)
        self._current().observe(run, event)

    def _may_start(self, run: RunState, task: RunTask) -> bool:
        if not task.step_id or self._current().is_given(task.step_id):
            return True
        assert run.plan is not None
        planning = (run.plan.planner, run.plan.alignment, run.plan.synthesis)
        # An attempt that waits for a person takes no place.
        executing = sum(task_id not in planning and not run.tasks[task_id].question for task_id in run.live_ids)
        return executing < self._max_parallel and not self._is_misaligned

    def _decision(self, run: RunState, task: RunTask) -> inp.DecisionIn | None:
        progress = self._current()
        if not task.step_id or progress.is_given(task.step_id) or not awaits_decision(run, task.task_id):
            return None
        subtask = progress.subtask(task.step_id)
        upstream = [progress.subtask(id_) for id_ in dict.fromkeys(subtask.dependencies)]
        completed = {each.id: each for each in upstream if each.status is SubTaskStatus.COMPLETED}
        candidates = [Candidate(each.id, as_text(each.result), each.role) for each in completed.values()]
        absent = [Candidate(each.id, "", each.role) for each in upstream if each.id not in completed]
        made = resolve(subtask.decision, subtask.tool_args, candidates, absent)
        result = completed[made.winner].result if made.winner else made.reason if made.is_decided else None
        return inp.DecisionIn(task.task_id, made.is_decided, made.reason, result, made.winner)

    async def _attempt(self, run: RunState, task: RunTask) -> inp.ResultIn:
        """Makes an attempt: its questions and its model calls are the run's to answer, and to cover."""
        assert self._run is not None
        meter = None
        if self._budget.limits.limited:
            meter = AttemptMeter(self._budget.limits, RunReservation(self._run, task))
        bind_meter(meter)
        if self._takes_answers and self._forwarding is None:
            with bind_desk(AttemptDesk(self._run, task, self._people)):
                return await self._metered(run, task, meter)
        return await self._metered(run, task, meter)

    async def _metered(self, run: RunState, task: RunTask, meter: AttemptMeter | None) -> inp.ResultIn:
        if meter is None:
            return await self._work(run, task)
        try:
            result = await self._work(run, task)
        except BudgetExhausted:
            if meter.refusal is None:
                raise
            result = failed_result(task, meter.refusal)
        most = Amount(*map(max, astuple(meter.spent), astuple(result.spent)))
        return replace(result, spent=most)

    async def _work(self, run: RunState, task: RunTask) -> inp.ResultIn:
        assert run.plan is not None
        if task.step_id:
            return await self._execute_step(task)
        if task.align:
            return await self._check_alignment(run, task)
        if task.task_id == run.plan.synthesis:
            text = await self._combine(self._current().task) if self._combine is not None else None
            return completion(task, text)
        if not run.plan.steps:
            return await self._first_plan(task)
        return await self._plan_again(run, task)

    # Subtasks --------------------------------------------------------------------------------------------------------

    async def _execute_step(self, task: RunTask) -> inp.ResultIn:
        progress, id_ = self._current(), task.step_id
        subtask = progress.subtask(id_)
        if (given := progress.take_given(id_)) is not None:
            if given.status is SubTaskStatus.COMPLETED:
                return completion(task, given.result)
            return failed_result(task, Failure("ABORTED", "", str(given.result or ""), retry=int(RetryAdvice.NEVER)))
        attempts = self._counts.attempts[task.task_id]
        before = replace(attempts.spending)
        try:
            result = await self._attempts.attempt(progress.task, attempts)
            if self._records is not None:
                result = kept_result(result, id_)
        except AttemptFailed as failed:
            attempts.problem = failed.problem
            may_try = not failed.is_final and (failed.may_pass or not subtask.critical)
            retry = RetryAdvice.LATER if may_try else RetryAdvice.NEVER
            failure = Failure("ABORTED", "", failed.problem, retry=int(retry))
            return replace(failed_result(task, failure), spent=spent_between(before, attempts.spending))
        return replace(completion(task, result, attempts.confidence), spent=spent_between(before, attempts.spending))

    def _recovered(self, run: RunState, task: RunTask) -> inp.Input:
        """Returns the outcome of an attempt that was in progress when the process ended: it is lost and made again,
        unless it is the call of a tool that may have acted. A tool that waits for a person has not."""
        plan = run.plan
        assert plan is not None
        if task.question or not plan.in_force(task) or self._current().is_given(task.step_id):
            return attempt_lost(run, task)  # the planner's, or one that a later plan has replaced
        subtask = plan.steps[task.step_id]
        if self._attempts.may_repeat(subtask):
            return attempt_lost(run, task)
        message = f"the process ended while {subtask.tool_name} was in progress, which may have acted"
        return failed_result(task, Failure("ABORTED", "", message, retry=int(RetryAdvice.NEVER)))

    # The planner -----------------------------------------------------------------------------------------------------

    async def _first_plan(self, task: RunTask) -> inp.ResultIn:
        """Asks the planner for the first plan, unless the execution begins with one."""
        made = self._made
        if made is None:
            assert self._planner is not None
            query = self._current().task.original_query
            made = await self._planner.create_plan(query, self._worker.tools, self._context)
            self._made = made
            if made.subtasks:
                Plan.of(made)
                if self._records is not None:
                    self._records.add_plan(made)
            self._current().begin(made)
        if not made.subtasks and self._planner is not None and self._planner.answer(made) is not None:
            raise _NothingToDo
        Plan.of(made)
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=made)

    async def _plan_again(self, run: RunState, task: RunTask) -> inp.ResultIn:
        """Asks the planner for the replacement of subtasks, or for another plan."""
        plan, progress = run.plan, self._current()
        assert plan is not None
        places, reason = plan.expanding, plan.reason
        if self._planner is None:
            what = f"{places[0]} cannot be expanded" if places else f"there is no new plan: {reason}"
            return without_plan(task, f"without a planner, {what}")
        try:
            if places:
                new = await self._planner.expand(progress.task, places, self._worker.tools)
            else:
                new = await self._replan(reason, plan.counters, plan.rules.policy)
        except FATAL:
            raise
        except PlanNotApproved:
            raise
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is None or current.cancelling():
                raise
            return without_plan(task, "the planner was cancelled")
        except ArchonError as error:
            if places:
                self._cause = error
                return without_plan(task, f"{places[0]} cannot be expanded: {error}")
            if has_failed(plan.counters, plan.rules.policy):
                self._cause = error
                return without_plan(task, f"{reason}, and there is no new plan: {error}")
            _log.warning("task %s: no new plan: %s", progress.task.id, error)
            # A doubt is no reason to give up steps that may still succeed.
            kept = still_open(progress.task)
            return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=kept, changes=(KEPT,))
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=still_open(new))

    async def _replan(self, reason: str, counters: ReplanCounters, policy: ReplanPolicy) -> Task:
        assert self._planner is not None
        await self._report(PlanEventKind.REPLANNING, message=reason)
        limit = policy.failures_of_subtask
        split = [id_ for id_, count in counters.failures.items() if count >= limit]
        return await self._planner.replan(self._current().task, reason, self._worker.tools, split=split)

    async def _check_alignment(self, run: RunState, task: RunTask) -> inp.ResultIn:
        """Checks the plan, and asks the planner for another one if it does not serve the query any more."""
        assert run.plan is not None
        progress = self._current()
        if self._alignment is None or self._planner is None:
            return completion(task)  # the plan began with a check, and goes on without one
        problem = await misalignment(self._alignment, progress.task)
        if not problem:
            return completion(task)
        reason = replan_reason(ReplanCounters(misalignment=problem)) or problem
        self._is_misaligned = True
        try:
            await self._resumed.wait()
            new = await self._replan(reason, ReplanCounters(), run.plan.rules.policy)
        except (*FATAL, PlanNotApproved):
            raise
        except ArchonError as error:
            _log.warning("task %s: no new plan: %s", progress.task.id, error)
            return completion(task)
        finally:
            self._is_misaligned = False
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=still_open(new), reason=problem)

    # The end ---------------------------------------------------------------------------------------------------------

    async def _failed(self, state: RunState, *, is_new: bool) -> ArchonError:
        progress, failure = self._current(), state.failure
        assert state.plan is not None
        assert failure is not None
        counters, policy = state.plan.counters, state.plan.rules.policy
        reason = failure.message
        if failure.reason == PLAN_FAILED and has_failed(counters, policy):
            reason = failure_causes(counters, policy) or reason
        for subtask in progress.task.subtasks:
            if subtask.status is SubTaskStatus.FAILED:
                progress.task = skip_dependants(progress.task, subtask.id)
        progress.plans.append(progress.task)
        if is_new:
            await self._report(PlanEventKind.FAILED, message=reason)
        if failure.reason in _ENDS:
            return error_of(failure)
        after = f" after {counters.replans} replans" if counters.replans else ""
        return PlanFailed(f"the plan failed{after}: {reason}.", progress.plans, simpler_goal(progress.task))

    def _current(self) -> PlanProgress:
        assert self._progress is not None
        return self._progress

    async def _report(self, kind: PlanEventKind, message: str = "") -> None:
        await self._report_all()
        await report(self._on_event, PlanEvent(kind, self._current().task, None, message))

    async def _after_turn(self) -> None:
        await self._report_all()
        if self._forwarding is not None and self._run is not None:
            self._forwarding.look(self._run)

    async def _report_all(self) -> None:
        for event in self._current().take_events():
            await report(self._on_event, event)
