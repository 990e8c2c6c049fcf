"""Executes a plan in this process: a run of the engine, whose steps are executed by a worker."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, OperationCancelled
from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import LocalRun, RunState
from archon_mesh.engine import Task as RunTask
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.plan import (
    Plan,
    ReplanCounters,
    ReplanPolicy,
    SubTaskStatus,
    Task,
    replan_reason,
    skip_dependants,
)
from archon_mesh.engine.types import PLAN, PLAN_FAILED, Failure, PlanRules, Submission, TaskState
from archon_mesh.planning.alignment import AlignmentCheck, misalignment
from archon_mesh.planning.attempts import FATAL, MAX_ATTEMPTS, TIMEOUT, AttemptFailed, Attempts, Measured, SubTaskRun
from archon_mesh.planning.check import ResultCheck
from archon_mesh.planning.errors import PlanFailed, PlanNotApproved
from archon_mesh.planning.events import PlanEvent, PlanEventHandler, PlanEventKind, report
from archon_mesh.planning.plan_source import PlanSource
from archon_mesh.planning.progress import PlanProgress
from archon_mesh.planning.suggestion import simpler_goal
from archon_mesh.planning.worker import Worker

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
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Raises InvalidArgument if a limit is out of range."""
        if max_parallel < 1 or max_attempts < 1 or timeout <= 0:
            raise InvalidArgument("max_parallel and max_attempts must be at least 1, and timeout above 0 s")
        self._worker = worker
        self._planner = planner
        self._policy = (policy or ReplanPolicy()) if planner is not None else _WITHOUT_PLANNER
        permanent = self._policy.failures_of_subtask if planner is not None else 1
        self._rules = PlanRules(self._policy, max_attempts, True, permanent)
        self._attempts = Attempts(worker, check=check, timeout=timeout)
        self._alignment = alignment
        self._max_parallel = max_parallel
        self._on_event = on_event
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

        Raises the errors of `Plan.of`, and FailedPrecondition if no plan is being executed, or the edit changes a
        subtask that has begun, or builds on one that failed.
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
        if self._run is not None and self._run.state.submission is not None:
            self._run.give(command)

    async def execute(self, task: Task) -> Task:
        """Returns the task when all its subtasks have ended: in the last plan, if there were replans.

        Subtasks that have completed already are not executed. Raises the errors of `Plan.of`, PlanFailed,
        PlanNotApproved, OperationCancelled after `cancel`, BudgetExhausted, and FailedPrecondition if a plan is being
        executed already.
        """
        if self._run is not None and not self._run.over:
            raise FailedPrecondition("this executor is executing a plan already")
        Plan.of(task)
        progress = self._progress = PlanProgress(task, self._measured)
        self._subtasks, self._cause = {}, None
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
        self._run = LocalRun(
            inputs,
            self._attempt,
            may_start=self._may_start,
            observe=progress.observe,
            after_turn=self._report_all,
            sleep=self._sleep,
        )
        try:
            state = await self._run.run()
        finally:
            progress.stopped()
        if state.state is TaskState.COMPLETED:
            await self._report(PlanEventKind.COMPLETED)
            return progress.task
        raise await self._failed(state) from self._cause

    def _may_start(self, run: RunState, task: RunTask) -> bool:
        if not task.step_id or self._current().is_given(task.step_id):
            return True
        assert run.plan is not None
        planning = (run.plan.planner, run.plan.alignment, run.plan.synthesis)
        executing = len(run.live_ids) - sum(task_id in run.live_ids for task_id in planning)
        return executing < self._max_parallel and not self._is_misaligned

    async def _attempt(self, run: RunState, task: RunTask) -> inp.ResultIn:
        assert run.plan is not None
        if task.step_id:
            return await self._execute_step(run, task)
        if task.align:
            return await self._check_alignment(task)
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
        attempts = self._subtasks.get(task.task_id)
        if attempts is None:
            number = progress.number_of(id_)
            attempts = self._subtasks[task.task_id] = SubTaskRun(subtask, number, self._clock())
        attempts.attempts += 1
        try:
            result = await self._attempts.attempt(progress.task, attempts)
        except AttemptFailed as failed:
            attempts.problem = failed.problem
            may_try = not failed.is_final and (failed.may_pass or not subtask.critical)
            retry = RetryAdvice.LATER if may_try else RetryAdvice.NEVER
            return _failure(task, Failure("ABORTED", "", failed.problem, retry=int(retry)))
        return _completed(task, result, attempts.confidence)

    def _measured(self, task_id: str) -> Measured | None:
        attempts = self._subtasks.get(task_id)
        return attempts.measured(self._clock()) if attempts is not None else None

    # The planner -----------------------------------------------------------------------------------------------------

    async def _plan_again(self, run: RunState, task: RunTask) -> inp.ResultIn:
        """Asks the planner for the replacement of subtasks, or for another plan."""
        plan, progress = run.plan, self._current()
        assert plan is not None
        places, reason = plan.expanding, plan.reason
        if self._planner is None:
            return _no_plan(task, f"without a planner, {places[0]} cannot be expanded")
        try:
            if places:
                new = await self._planner.expand(progress.task, places, self._worker.tools)
            else:
                new = await self._replan(reason, plan.counters)
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
            if _has_failed(plan.counters, self._policy):
                self._cause = error
                return _no_plan(task, f"{reason}, and there is no new plan: {error}")
            _log.warning("task %s: no new plan: %s", progress.task.id, error)
            new = progress.kept()  # a doubt is no reason to give up steps that may still succeed
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=_open(new))

    async def _replan(self, reason: str, counters: ReplanCounters) -> Task:
        assert self._planner is not None
        await self._report(PlanEventKind.REPLANNING, message=reason)
        limit = self._policy.failures_of_subtask
        split = [id_ for id_, count in counters.failures.items() if count >= limit]
        return await self._planner.replan(self._current().task, reason, self._worker.tools, split=split)

    async def _check_alignment(self, task: RunTask) -> inp.ResultIn:
        """Checks the plan, and asks the planner for another one if it does not serve the query any more."""
        assert self._alignment is not None
        progress = self._current()
        problem = await misalignment(self._alignment, progress.task)
        if not problem:
            return _completed(task)
        reason = replan_reason(ReplanCounters(misalignment=problem)) or problem
        self._is_misaligned = True
        try:
            await self._resumed.wait()
            new = await self._replan(reason, ReplanCounters())
        except (*FATAL, PlanNotApproved):
            raise
        except ArchonError as error:
            _log.warning("task %s: no new plan: %s", progress.task.id, error)
            return _completed(task)
        finally:
            self._is_misaligned = False
        return inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=_open(new), reason=problem)

    # The end ---------------------------------------------------------------------------------------------------------

    async def _failed(self, state: RunState) -> PlanFailed:
        progress, failure = self._current(), state.failure
        assert state.plan is not None
        assert failure is not None
        counters = state.plan.counters
        reason = failure.message
        if failure.reason == PLAN_FAILED and _has_failed(counters, self._policy):
            reason = _why(counters, self._policy) or reason
        for subtask in progress.task.subtasks:
            if subtask.status is SubTaskStatus.FAILED:
                progress.task = skip_dependants(progress.task, subtask.id)
        progress.plans.append(progress.task)
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


def _completed(task: RunTask, result: Any = None, confidence: float = 1.0) -> inp.ResultIn:
    return inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, result, confidence=confidence)


def _failure(task: RunTask, failure: Failure) -> inp.ResultIn:
    return inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, None, failure)


def _no_plan(task: RunTask, message: str) -> inp.ResultIn:
    return _failure(task, Failure("FAILED_PRECONDITION", PLANNER_FAILED, message, retry=int(RetryAdvice.NEVER)))
