"""Executes a plan in this process: a run of the engine, whose steps are executed by a worker."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from archon.clock import monotonic
from archon.errors import ArchonError, DataLoss, FailedPrecondition, InvalidArgument, OperationCancelled
from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import LocalRun, RunState
from archon_mesh.engine import Task as RunTask
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.decision import awaits_decision
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.decisions import UNDECIDED_REQUEST, Candidate, resolve
from archon_mesh.engine.local_run import attempt_lost
from archon_mesh.engine.plan import (
    Plan,
    ReplanCounters,
    ReplanPolicy,
    SubTask,
    SubTaskStatus,
    Task,
    replan_reason,
    skip_dependants,
)
from archon_mesh.engine.plan.templates import as_text
from archon_mesh.engine.types import PLAN, PLAN_FAILED, Amount, Failure, PlanRules, Submission, TaskState
from archon_mesh.planning.alignment import AlignmentCheck, misalignment
from archon_mesh.planning.attempts import FATAL, MAX_ATTEMPTS, TIMEOUT, AttemptFailed, Attempts, Measured, SubTaskRun
from archon_mesh.planning.check import ResultCheck
from archon_mesh.planning.errors import PlanFailed, PlanNotApproved
from archon_mesh.planning.events import PlanEvent, PlanEventHandler, PlanEventKind, report
from archon_mesh.planning.journal import JournalMismatch, PlanJournal, journal_of
from archon_mesh.planning.plan_source import PlanSource
from archon_mesh.planning.progress import KEPT, PlanProgress
from archon_mesh.planning.records import Asked, PlanRecords, as_stored, checked_asked
from archon_mesh.planning.run_clock import run_clock
from archon_mesh.planning.suggestion import simpler_goal
from archon_mesh.planning.worker import Spending, Worker

_log = logging.getLogger(__name__)

MAX_PARALLEL: Final = 8
"""Subtasks that are executed at the same time."""

UNLIMITED: Final = 1e9
"""Seconds of a run in a process, which has no deadline of its own; as a count, more than any plan has."""

PLANNER: Final = "planner"
"""The role of the tasks that make plans. No agent is called by it."""

PLANNER_FAILED: Final = "PLANNER_FAILED"
"""The reason of a run's failure without another plan, or without the replacement of a subtask."""


class PlanExecutor:
    """Executes plans, one at a time, and has them made anew by the planner, as ReplanPolicy says.

    `worker` has the tools, the model and the agents. Without a `planner` there are no replans: the dependants of a
    failed subtask are skipped, and a failed critical subtask fails the plan. `check` is asked about each result after
    the rules (`check_by_rules`). `alignment` is asked after a subtask has completed, while others have not begun,
    whether the plan still serves the query: if it does not, the plan is made anew, as far as replans are left.
    `timeout` is in seconds, for each of `max_attempts` attempts at a subtask. `on_event` receives every PlanEvent. The
    planner is also asked for the replacement of subtasks with `expand`, and of failed ones with `expand_on_failure`;
    that is no replan. Whatever the planner is asked, subtasks that can start do so meanwhile.

    With a `journal`, the path of a file or a PlanJournal, the plan is kept as it goes on, and `resume_from` continues
    it in another process.

    `task` is the plan as it is now, at any time; `plans` has those that were given up; `measured` has the measurements
    of each subtask.
    """

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
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Raises InvalidArgument if a limit is out of range."""
        if max_parallel < 1 or max_attempts < 1 or timeout <= 0:
            raise InvalidArgument("max_parallel and max_attempts must be at least 1, and timeout above 0 s")
        self._worker = worker
        self._planner = planner
        policy = (policy or ReplanPolicy()) if planner is not None else _WITHOUT_PLANNER
        permanent = policy.failures_of_subtask if planner is not None else 1
        self._rules = PlanRules(policy, max_attempts, True, permanent)
        self._attempts = Attempts(worker, check=check, timeout=timeout)
        self._alignment = alignment
        self._max_parallel = max_parallel
        self._on_event = on_event
        self._journal = journal
        self._records: PlanRecords | None = None
        self._clock = clock
        self._sleep = sleep
        self._progress: PlanProgress | None = None
        self._run: LocalRun | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._subtasks: dict[str, SubTaskRun] = {}
        """The attempts at each subtask, by the task of the run."""

        self._cause: ArchonError | None = None
        """Why the planner has made no plan."""

        self._is_past = False
        """Whether the events of a journal are being folded."""
        self._past_time = 0.0
        """The time of the last result among them."""
        self._is_misaligned = False
        """Whether the planner makes another plan because this one does not serve the query: no subtask begins."""

    @property
    def task(self) -> Task | None:
        """The plan as it is now, or None before the first one."""
        return self._progress.task if self._progress is not None else None

    @property
    def plans(self) -> list[Task]:
        """The plans that were given up, and the one that failed."""
        return self._progress.plans if self._progress is not None else []

    @property
    def measured(self) -> dict[str, Measured]:
        """The measurements of each ended subtask, by its id."""
        return self._progress.measured if self._progress is not None else {}

    @property
    def replans(self) -> int:
        """How often the current plan was made anew."""
        plan = self._run.state.plan if self._run is not None else None
        return plan.counters.replans if plan is not None else 0

    @property
    def revision(self) -> int:
        """The number of the plan in force, 0 before the first: replans, expansions and edits count."""
        plan = self._run.state.plan if self._run is not None else None
        return plan.revision if plan is not None else 0

    def pause(self) -> None:
        """Starts no further subtask until `resume`. Those that are executing continue."""
        if self._resumed.is_set():
            self._resumed.clear()
            self._give(inp.Pause(""))

    def resume(self) -> None:
        """Starts subtasks again after `pause`."""
        if not self._resumed.is_set():
            self._resumed.set()
            self._give(inp.Resume(""))

    def edit(self, task: Task) -> None:
        """Replaces the subtasks that have not begun by the ones of `task`, which has those that have begun as they are.
        Subtasks start while the plan is thought about, unless it is paused.

        Raises the errors of `Plan.of`, FailedPrecondition if no plan is being executed, or the edit changes a
        subtask that has begun, or builds on one that failed, and the errors of the journal.
        """
        run = self._run
        if run is None or run.over or run.state.plan is None:
            raise FailedPrecondition("no plan is being executed")
        Plan.of(task)
        edit = inp.EditPlan("", uuid.uuid4().hex, run.state.plan.seq, task)
        if (refusal := edit_refusal(run.state, edit)) is not None:
            raise FailedPrecondition(refusal.message)
        run.give(edit)

    def cancel(self) -> None:
        """Stops the subtasks that are executing; `execute` raises OperationCancelled."""
        if self._run is not None:
            self._run.stop(OperationCancelled("the plan was cancelled"))

    def _give(self, command: inp.Command) -> None:
        if self._run is not None and self._run.state.submission is not None and not self._run.over:
            self._run.give(command)

    async def execute(self, task: Task) -> Task:
        """Returns the task when all its subtasks have ended: in the last plan, if there were replans.

        Subtasks that have completed already are not executed. Raises the errors of `Plan.of`, PlanFailed,
        PlanNotApproved, OperationCancelled after `cancel`, BudgetExhausted, FailedPrecondition if a plan is being
        executed already, and with a journal its errors, JournalMismatch if it holds a plan already, and InvalidArgument
        if the plan holds values that have no JSON form.
        """
        self._check_idle()
        Plan.of(task)
        if self._journal is None:
            return await self.carry_out(task)
        records = PlanRecords(journal_of(self._journal))
        try:
            if records.stored.plan is not None:
                raise JournalMismatch(
                    "the journal holds a plan already: go on with it by resume_from, or choose another one"
                )
            if (asked := records.stored.asked) is None:
                records.begin(Asked(task.original_query, task.context))
            else:
                checked_asked(replace(asked, query=task.original_query), records.stored)
            records.add_plan(task)
            return await self.carry_out(task, records)
        finally:
            records.close()

    async def resume_from(self, journal: PlanJournal | str | os.PathLike[str] | None = None) -> Task:
        """Goes on with the plan of a journal, by default the executor's, and returns the task as `execute` does.

        Completed subtasks are not executed again; those that were in progress when the process before ended are, unless
        a tool may have acted. If the plan has ended, its outcome is returned, or raised, at once. The policy and the
        number of attempts are those that the plan began with. Raises the errors of `execute`, and JournalMismatch if
        the journal holds no plan.
        """
        self._check_idle()
        chosen = journal if journal is not None else self._journal
        if chosen is None:
            raise InvalidArgument("there is no journal to go on with")
        records = PlanRecords(journal_of(chosen))
        try:
            if (task := records.stored.plan) is None:
                raise JournalMismatch("the journal holds no plan yet: execute one with it first")
            return await self.carry_out(task, records)
        finally:
            records.close()

    def _check_idle(self) -> None:
        if self._run is not None and not self._run.over:
            raise FailedPrecondition("this executor is executing a plan already")

    async def carry_out(self, task: Task, records: PlanRecords | None = None) -> Task:
        """As `execute`, with records that hold the task; if they have events of its run, as `resume_from`."""
        self._check_idle()
        Plan.of(task)
        past = records.stored.events if records is not None else ()
        progress = self._progress = PlanProgress(task, self._measured)
        self._subtasks, self._cause, self._records = {}, None, records
        self._attempts.begin()
        submission = Submission(
            task.id,
            "",
            "",
            "",
            PLAN,
            (PLANNER,),
            (),
            UNLIMITED,
            None,
            check_alignment=self._alignment is not None and self._planner is not None,
            plan_rules=self._rules,
        )
        inputs: list[inp.Input] = [inp.Submit(submission, "", 1)]
        if not self._resumed.is_set():
            inputs.append(inp.Pause(""))
        self._is_past = bool(past)
        try:
            self._run = run = LocalRun(
                inputs,
                self._attempt,
                may_start=self._may_start,
                decision=self._decision,
                observe=self._observe,
                after_turn=self._report_all,
                clock=monotonic if records is None else run_clock(past[-1][1] if past else 0.0),
                sleep=self._sleep,
                journal=records,
                past=past,
                recover=self._recovered,
            )
        except Exception as error:
            raise DataLoss(f"the events of the journal make no plan ({error!r}): restore it, or begin anew") from error
        finally:
            self._is_past = False
        if past:
            self._continue(run)
        try:
            state = await run.run()
        finally:
            progress.stopped()
        is_new = not past or not isinstance(past[-1][0], ev.RunEnded)
        if state.state is TaskState.COMPLETED:
            if is_new:
                await self._report(PlanEventKind.COMPLETED)
            return progress.task
        raise await self._failed(state, is_new=is_new) from self._cause

    def _continue(self, run: LocalRun) -> None:
        """Takes over from the process before. The events of the journal are not reported again."""
        for attempts in self._subtasks.values():
            attempts.started = self._clock() - (run.state.latest_time - attempts.started)
        self._current().continued(is_over=run.state.ended)
        if run.state.paused:
            self._resumed.clear()
        elif not self._resumed.is_set():
            run.give(inp.Pause(""))

    def _observe(self, run: RunState, event: ev.Event) -> None:
        if isinstance(event, (ev.Dispatched, ev.Retried, ev.ResultReceived)):
            self._count(run, event)
        self._current().observe(run, event)

    def _count(self, run: RunState, event: ev.Dispatched | ev.Retried | ev.ResultReceived) -> None:
        """Counts the attempts at a subtask, also the ones in the journal."""
        progress, id_ = self._current(), run.tasks[event.task_id].step_id
        if not id_:
            return
        if isinstance(event, ev.Dispatched):
            if progress.is_given(id_):
                return
            attempts = self._subtasks.get(event.task_id)
            if attempts is None:
                started = run.latest_time if self._is_past else self._clock()
                subtask = progress.subtask(id_)
                if subtask.assigned_by:
                    subtask = replace(subtask, role=event.role)
                attempts = SubTaskRun(_executed(subtask), progress.number_of(id_), started)
                self._subtasks[event.task_id] = attempts
            attempts.attempts += 1
            return
        attempts = self._subtasks.get(event.task_id)
        if attempts is None:
            progress.take_given(id_)
        elif self._is_past:
            attempts.spending.model_calls += event.spent.calls
            attempts.spending.cost_micro_usd += event.spent.cost
            attempts.problem = event.failure.message if event.failure is not None else ""
            self._past_time = run.latest_time

    def _may_start(self, run: RunState, task: RunTask) -> bool:
        if not task.step_id or self._current().is_given(task.step_id):
            return True
        assert run.plan is not None
        planning = (run.plan.planner, run.plan.alignment, run.plan.synthesis)
        executing = len(run.live_ids) - sum(task_id in run.live_ids for task_id in planning)
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
        assert run.plan is not None
        if task.step_id:
            return await self._execute_step(run, task)
        if task.align:
            return await self._check_alignment(run, task)
        if task.task_id == run.plan.synthesis:
            return _completed(task)
        if not run.plan.steps:
            return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=self._current().task)
        return await self._plan_again(run, task)

    # Subtasks --------------------------------------------------------------------------------------------------------

    async def _execute_step(self, run: RunState, task: RunTask) -> inp.ResultIn:
        progress, id_ = self._current(), task.step_id
        subtask = progress.subtask(id_)
        if (given := progress.take_given(id_)) is not None:
            if given.status is SubTaskStatus.COMPLETED:
                return _completed(task, given.result)
            return _failure(task, Failure("ABORTED", "", str(given.result or ""), retry=int(RetryAdvice.NEVER)))
        attempts = self._subtasks[task.task_id]
        before = replace(attempts.spending)
        try:
            result = await self._attempts.attempt(progress.task, attempts)
            if self._records is not None:
                result = _kept_result(result, id_)
        except AttemptFailed as failed:
            attempts.problem = failed.problem
            may_try = not failed.is_final and (failed.may_pass or not subtask.critical)
            retry = RetryAdvice.LATER if may_try else RetryAdvice.NEVER
            failure = Failure("ABORTED", "", failed.problem, retry=int(retry))
            return replace(_failure(task, failure), spent=_spent(before, attempts.spending))
        return replace(_completed(task, result, attempts.confidence), spent=_spent(before, attempts.spending))

    def _recovered(self, run: RunState, task: RunTask) -> inp.Input:
        """Returns the outcome of an attempt that was in progress when the process ended: it is lost and made again,
        unless it is the call of a tool that may have acted."""
        plan = run.plan
        assert plan is not None
        if not plan.in_force(task) or self._current().is_given(task.step_id):
            return attempt_lost(run, task)  # the planner's, or one that a later plan has replaced
        subtask = plan.steps[task.step_id]
        if self._attempts.may_repeat(subtask):
            return attempt_lost(run, task)
        message = f"the process ended while {subtask.tool_name} was in progress, which may have acted"
        return _failure(task, Failure("ABORTED", "", message, retry=int(RetryAdvice.NEVER)))

    def _measured(self, task_id: str) -> Measured | None:
        attempts = self._subtasks.get(task_id)
        return attempts.measured(self._past_time if self._is_past else self._clock()) if attempts is not None else None

    # The planner -----------------------------------------------------------------------------------------------------

    async def _plan_again(self, run: RunState, task: RunTask) -> inp.ResultIn:
        """Asks the planner for the replacement of subtasks, or for another plan."""
        plan, progress = run.plan, self._current()
        assert plan is not None
        places, reason = plan.expanding, plan.reason
        if self._planner is None:
            what = f"{places[0]} cannot be expanded" if places else f"there is no new plan: {reason}"
            return _no_plan(task, f"without a planner, {what}")
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
            return _no_plan(task, "the planner was cancelled")
        except ArchonError as error:
            if places:
                self._cause = error
                return _no_plan(task, f"{places[0]} cannot be expanded: {error}")
            if _has_failed(plan.counters, plan.rules.policy):
                self._cause = error
                return _no_plan(task, f"{reason}, and there is no new plan: {error}")
            _log.warning("task %s: no new plan: %s", progress.task.id, error)
            # A doubt is no reason to give up steps that may still succeed.
            kept = _open(progress.task)
            return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=kept, changes=(KEPT,))
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=_open(new))

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
            return _completed(task)  # the plan began with a check, and goes on without one
        problem = await misalignment(self._alignment, progress.task)
        if not problem:
            return _completed(task)
        reason = replan_reason(ReplanCounters(misalignment=problem)) or problem
        self._is_misaligned = True
        try:
            await self._resumed.wait()
            new = await self._replan(reason, ReplanCounters(), run.plan.rules.policy)
        except (*FATAL, PlanNotApproved):
            raise
        except ArchonError as error:
            _log.warning("task %s: no new plan: %s", progress.task.id, error)
            return _completed(task)
        finally:
            self._is_misaligned = False
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=_open(new), reason=problem)

    # The end ---------------------------------------------------------------------------------------------------------

    async def _failed(self, state: RunState, *, is_new: bool) -> PlanFailed:
        progress, failure = self._current(), state.failure
        assert state.plan is not None
        assert failure is not None
        counters, policy = state.plan.counters, state.plan.rules.policy
        reason = failure.message
        if failure.reason == PLAN_FAILED and _has_failed(counters, policy):
            reason = _why(counters, policy) or reason
        for subtask in progress.task.subtasks:
            if subtask.status is SubTaskStatus.FAILED:
                progress.task = skip_dependants(progress.task, subtask.id)
        progress.plans.append(progress.task)
        if is_new:
            await self._report(PlanEventKind.FAILED, message=reason)
        after = f" after {counters.replans} replans" if counters.replans else ""
        return PlanFailed(f"the plan failed{after}: {reason}.", progress.plans, simpler_goal(progress.task))

    def _current(self) -> PlanProgress:
        assert self._progress is not None
        return self._progress

    async def _report(self, kind: PlanEventKind, message: str = "") -> None:
        await self._report_all()
        await report(self._on_event, PlanEvent(kind, self.task, None, message))

    async def _report_all(self) -> None:
        for event in self._current().take_events():
            await report(self._on_event, event)


_WITHOUT_PLANNER: Final = ReplanPolicy(int(UNLIMITED), int(UNLIMITED), 0.0, 0, 0)


def _why(counters: ReplanCounters, policy: ReplanPolicy) -> str | None:
    """Returns the failures that require another plan, whether or not a replan is left; None if there are none."""
    return replan_reason(replace(counters.without_doubts(), replans=0), replace(policy, max_replans=1))


def _has_failed(counters: ReplanCounters, policy: ReplanPolicy) -> bool:
    return _why(counters, policy) is not None


def _open(task: Task) -> Task:
    """Returns a plan with the subtasks that have not ended: the run knows the others."""
    return replace(task, subtasks=tuple(subtask for subtask in task.subtasks if not subtask.has_ended))


def _executed(subtask: SubTask) -> SubTask:
    """Returns the subtask as it is executed: one with a decision, which its rule has not made, as a question."""
    if not subtask.decision:
        return subtask
    request = f"{UNDECIDED_REQUEST}\n\n{subtask.description}".strip()
    return replace(subtask, description=request, tool_args={})


def _completed(task: RunTask, result: Any = None, confidence: float = 1.0) -> inp.ResultIn:
    return inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, result, confidence=confidence)


def _kept_result(result: Any, id_: str) -> Any:
    """Returns a result as a later process reads it. Raises AttemptFailed if it cannot be kept: to execute the subtask
    again would not help."""
    try:
        return as_stored(result, f"the result of subtask {id_}")
    except InvalidArgument as error:
        raise AttemptFailed(error.message, is_final=True) from None


def _spent(before: Spending, after: Spending) -> Amount:
    return Amount(0, after.cost_micro_usd - before.cost_micro_usd, after.model_calls - before.model_calls)


def _failure(task: RunTask, failure: Failure) -> inp.ResultIn:
    return inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, None, failure)


def _no_plan(task: RunTask, message: str) -> inp.ResultIn:
    return _failure(task, Failure("FAILED_PRECONDITION", PLANNER_FAILED, message, retry=int(RetryAdvice.NEVER)))
