"""Executes a plan in this process: each subtask as soon as its own dependencies are done, several at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, OperationCancelled
from archon_mesh.core.plan import (
    MAX_EXPANSIONS,
    Plan,
    ReplanCounters,
    ReplanPolicy,
    SubTask,
    SubTaskStatus,
    Task,
    block_dependants,
    due_expansions,
    expanded,
    has_ended,
    ready_subtasks,
    replan_reason,
    skip_dependants,
)
from archon_mesh.planning.alignment import AlignmentCheck, AlignmentChecks
from archon_mesh.planning.attempts import FATAL, MAX_ATTEMPTS, TIMEOUT, Attempts, Measured, Sleep, SubTaskRun
from archon_mesh.planning.check import ResultCheck
from archon_mesh.planning.errors import PlanFailed, PlanNotApproved
from archon_mesh.planning.events import PlanEvent, PlanEventHandler, PlanEventKind, report
from archon_mesh.planning.plan_source import PlanSource
from archon_mesh.planning.suggestion import simpler_goal
from archon_mesh.planning.worker import Worker

_log = logging.getLogger(__name__)

MAX_PARALLEL: Final = 8
"""Subtasks that are executed at the same time."""

GRACE: Final = 10.0
"""Seconds that cancelled subtasks have to end."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the planner was asked: a plan for what is left, for a reason, or what takes `places`."""

    reply: asyncio.Task[Task]
    reason: str
    places: Sequence[str]


class PlanExecutor:
    """Executes plans, one at a time, and has them made anew by the planner, as ReplanPolicy says.

    `worker` has the tools, the model and the agents. Without a `planner` there are no replans: what depends on a failed
    subtask is skipped, and a failed critical subtask fails the plan. `check` is asked about each result after the rules
    (`check_by_rules`). `alignment` is asked after a subtask has completed, while others have not begun, whether the
    plan still serves the query: if it does not, the plan is made anew, as far as replans are left. `timeout` is in
    seconds, for each of `max_attempts` attempts at a subtask. `on_event` receives every PlanEvent. The planner is also
    asked for what takes the place of subtasks with `expand`, and of those with `expand_on_failure` that failed, while
    others are being executed; that is no replan.

    `task` is the plan as it is now, at any time; `plans` has those that were given up; `measured` says what each
    subtask took.
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
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Raises InvalidArgument if a limit is out of range."""
        if max_parallel < 1 or max_attempts < 1 or timeout <= 0:
            raise InvalidArgument("max_parallel and max_attempts must be at least 1, and timeout above 0 s")
        self._worker = worker
        self._planner = planner
        self._policy = policy or ReplanPolicy()
        self._attempts = Attempts(
            worker, check=check, max_attempts=max_attempts, timeout=timeout, clock=clock, sleep=sleep
        )
        self._alignment = alignment
        self._checks = AlignmentChecks(alignment, 0)
        self._max_parallel = max_parallel
        self._on_event = on_event
        self._task: Task | None = None
        self._counters = ReplanCounters()
        self._running: dict[asyncio.Task[SubTaskRun], str] = {}
        self._changed = asyncio.Event()
        self._paused = False
        self._cancelled = False
        self._executing = False
        self._asked: _Asked | None = None
        self._numbers: dict[str, int] = {}
        self._handled: set[str] = set()
        self._expansions = 0
        self.plans: list[Task] = []
        self.measured: dict[str, Measured] = {}

    @property
    def task(self) -> Task | None:
        """The plan as it is now, or None before the first one."""
        return self._task

    @property
    def replans(self) -> int:
        """How often the current plan was made anew."""
        return self._counters.replans

    def pause(self) -> None:
        """Starts no further subtask until `resume`. Those that are executing continue."""
        self._paused = True
        self._changed.set()

    def resume(self) -> None:
        """Starts subtasks again after `pause`."""
        self._paused = False
        self._changed.set()

    def cancel(self) -> None:
        """Stops the subtasks that are executing; `execute` raises OperationCancelled."""
        self._cancelled = True
        self._changed.set()

    async def execute(self, task: Task) -> Task:
        """Returns the task when all its subtasks have ended: those of the last plan, if there were replans.

        Subtasks that have completed already are not executed. Raises what `Plan.of` raises, PlanFailed,
        PlanNotApproved, OperationCancelled after `cancel`, BudgetExhausted, and FailedPrecondition if a plan is being
        executed already.
        """
        if self._executing:
            raise FailedPrecondition("this executor is executing a plan already")
        Plan.of(task)
        self._executing, self._cancelled, self._counters = True, False, ReplanCounters()
        self._task = _without_executing(task)
        self.plans, self.measured = [], {}
        self._handled, self._expansions, self._numbers = set(), 0, {}
        limit = self._policy.max_alignment_checks if self._planner is not None else 0
        self._checks = AlignmentChecks(self._alignment, limit)
        try:
            return await self._execute()
        finally:
            await self._stop()
            self._executing = False

    # The loop --------------------------------------------------------------------------------------------------------

    async def _execute(self) -> Task:
        was_paused = False
        while True:
            self._changed.clear()
            if self._cancelled:
                raise OperationCancelled("the plan was cancelled")
            reason = self._reason()
            is_idle = not self._running and self._asked is None
            if reason is not None and is_idle and not self._paused and not await self._ask_for_replan(reason):
                continue
            if self._paused is not was_paused:
                was_paused = self._paused
                await self._report(PlanEventKind.PAUSED if was_paused else PlanEventKind.RESUMED)
            if not self._paused and reason is None:
                due = due_expansions(self._current(), self._handled) if self._asked is None else ()
                if due:
                    await self._ask_for_expansion(due)
                elif self._asked is None and self._lower_confidence():
                    continue
                await self._start_ready()
                if not self._is_last_replan():
                    self._checks.start(self._current())
            is_idle = not self._running and self._asked is None and self._checks.running is None
            if reason is None and is_idle and has_ended(self._current()):
                return await self._finished()
            await self._wait()

    def _reason(self) -> str | None:
        """Returns why the plan is to be made anew, or None."""
        return replan_reason(replace(self._counters, replans=0), self._policy)

    def _lower_confidence(self) -> bool:
        """Notes the confidence of a subtask that would start next and is too low. Returns whether there is one, and a
        replan is left."""
        if self._planner is None or self._is_last_replan():
            return False
        lowest = min((subtask.confidence for subtask in self._ready()), default=1.0)
        if lowest >= self._policy.min_confidence:
            return False
        self._counters = replace(self._counters, confidence=lowest)
        return True

    def _ready(self) -> tuple[SubTask, ...]:
        return ready_subtasks(self._current(), self._handled)

    async def _start_ready(self) -> None:
        ready = self._ready()
        if not ready and not self._running and self._asked is None:
            # A plan that was given with failed subtasks.
            for subtask in self._current().subtasks:
                if subtask.status in (SubTaskStatus.FAILED, SubTaskStatus.SKIPPED):
                    await self._skip_dependants(subtask.id)
            ready = self._ready()
        for subtask in ready:
            if len(self._running) >= self._max_parallel:
                return
            executing = subtask.with_status(SubTaskStatus.EXECUTING)
            self._task = self._current().update_subtask(executing)
            attempts = self._attempts.run(self._task, executing, self._number_of(executing), self._retried)
            running = asyncio.create_task(attempts, name=f"subtask {subtask.id[:50]}")
            self._running[running] = subtask.id
            await self._report(PlanEventKind.SUBTASK_STARTED, executing)

    def _number_of(self, subtask: SubTask) -> int:
        """Returns the position of a subtask, which does not depend on when other subtasks end or are expanded."""
        for each in self._current().subtasks:
            self._numbers.setdefault(each.id, len(self._numbers) + 1)
        return self._numbers[subtask.id]

    async def _retried(self, subtask: SubTask, problem: str) -> None:
        if not subtask.expand_on_failure:
            self._counters = self._counters.with_failed_attempt(subtask.id)
        await self._report(PlanEventKind.SUBTASK_RETRIED, subtask, problem)

    async def _wait(self) -> None:
        """Waits until a subtask or a check of the alignment has ended, the planner has replied, or the executor is
        paused, resumed or cancelled; then notes what ended."""
        changed = asyncio.create_task(self._changed.wait(), name="plan changed")
        planning = {self._asked.reply} if self._asked is not None else set()
        checking = {self._checks.running} if self._checks.running is not None else set()
        try:
            await asyncio.wait({*self._running, *planning, *checking, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        fatal: BaseException | None = None
        for running in [each for each in self._running if each.done()]:
            del self._running[running]
            if (error := running.exception()) is not None:
                fatal = fatal or error
            else:
                await self._ended(running.result())
        if fatal is not None:
            raise fatal
        if (problem := self._checks.take()) and not self._is_last_replan():
            self._counters = replace(self._counters, misalignment=problem)
        if self._asked is not None and self._asked.reply.done():
            await self._planned(self._asked)

    async def _ended(self, run: SubTaskRun) -> None:
        """Notes the end of a subtask. Raises the fatal error of one."""
        self.measured[run.subtask.id] = run.measured
        if not run.problem:
            done = run.subtask.with_result(run.result)
            self._task = self._current().update_subtask(done)
            confidence = min(self._counters.confidence, run.confidence)
            self._counters = replace(self._counters.with_completed(done.id), confidence=confidence)
            self._checks.completed()
            await self._report(PlanEventKind.SUBTASK_COMPLETED, done)
            return
        failed = replace(run.subtask, status=SubTaskStatus.FAILED, result=run.problem)
        if failed.expand_on_failure:
            self._task = self._current().update_subtask(failed)
            await self._report(PlanEventKind.SUBTASK_FAILED, failed, run.problem)
            return
        self._task = block_dependants(self._current().update_subtask(failed), failed.id)
        # A failure that no further attempt can change counts as all of them.
        for _ in range(self._policy.failures_of_subtask if run.is_final else 1):
            self._counters = self._counters.with_failed_attempt(failed.id)
        self._counters = self._counters.with_failed(failed)
        await self._report(PlanEventKind.SUBTASK_FAILED, failed, run.problem)
        if self._planner is None or self._reason() is None:
            await self._skip_dependants(failed.id)

    async def _skip_dependants(self, failed_id: str) -> None:
        before = self._current()
        self._task = skip_dependants(before, failed_id)
        if self._planner is None and self._counters.critical_failure is None:
            self._counters = ReplanCounters(replans=self._counters.replans)
        for old, new in zip(before.subtasks, self._task.subtasks, strict=True):
            if new.status is SubTaskStatus.SKIPPED and old.status is not SubTaskStatus.SKIPPED:
                await self._report(PlanEventKind.SUBTASK_SKIPPED, new, f"it depends on {failed_id}, which failed")

    # Replans and the end ---------------------------------------------------------------------------------------------

    async def _ask_for_replan(self, reason: str) -> bool:
        """Asks the planner for another plan. Returns whether it was asked: without a failure there may be no cause.

        Raises PlanFailed if there is no planner, or no replan is left.
        """
        task, planner = self._current(), self._planner
        has_failed = self._has_failed()
        has_nothing_left = has_ended(task) and not self._counters.misalignment
        if not has_failed and (planner is None or self._is_last_replan() or has_nothing_left):
            self._counters = self._counters.without_doubts()
            return False
        if planner is None or self._is_last_replan():
            raise await self._failure(reason)
        await self._report(PlanEventKind.REPLANNING, message=reason)
        limit = self._policy.failures_of_subtask
        split = [id_ for id_, count in self._counters.failures.items() if count >= limit]
        self._ask(planner.replan(task, reason, self._worker.tools, split=split), reason)
        return True

    async def _ask_for_expansion(self, places: Sequence[str]) -> None:
        """Asks the planner what takes these places. Raises PlanFailed if there is no planner, or no expansion is
        left."""
        if self._planner is None:
            raise await self._failure(f"without a planner, {places[0]} cannot be expanded")
        if self._expansions >= MAX_EXPANSIONS:
            raise await self._failure(f"it was expanded {MAX_EXPANSIONS} times, the most that a plan may be")
        self._ask(self._planner.expand(self._current(), places, self._worker.tools), "", places)

    def _ask(self, reply: Coroutine[Any, Any, Task], reason: str, places: Sequence[str] = ()) -> None:
        self._asked = _Asked(asyncio.create_task(reply, name="planner"), reason, places)

    async def _planned(self, asked: _Asked) -> None:
        """Continues with what the planner has replied. Raises PlanFailed if it failed."""
        self._asked = None
        if asked.reply.cancelled():
            raise await self._failure("the planner was cancelled")
        error = asked.reply.exception()
        if error is None:
            await (self._expanded if asked.places else self._replanned)(asked, asked.reply.result())
            return
        if isinstance(error, (*FATAL, PlanNotApproved)) or not isinstance(error, ArchonError):
            raise error
        if asked.places:
            raise await self._failure(f"{asked.places[0]} cannot be expanded: {error}") from error
        _log.warning("task %s: no new plan: %s", self._current().id, error)
        if self._has_failed():
            raise await self._failure(f"{asked.reason}, and there is no new plan: {error}") from error
        self._counters = self._counters.with_replan()
        self._checks.abandon()

    async def _replanned(self, asked: _Asked, new_task: Task) -> None:
        self.plans.append(self._current())
        self._task, self._counters = new_task, self._counters.with_replan()
        self._checks.abandon()
        await self._report(PlanEventKind.REPLANNED, message=asked.reason)

    async def _expanded(self, asked: _Asked, new_task: Task) -> None:
        # Others have gone on since the planner was asked: what has begun stays as it is now.
        self._task = expanded(self._current(), new_task, asked.places)
        self._expansions += 1
        for id_ in asked.places:
            subtask = self._current().get_subtask(id_)
            if subtask is not None and subtask.status is SubTaskStatus.FAILED:
                self._handled.add(id_)
                await self._skip_dependants(id_)
        await self._report(PlanEventKind.EXPANDED, message=", ".join(asked.places))

    def _has_failed(self) -> bool:
        """Tells whether a failure is a cause for another plan."""
        return replan_reason(replace(self._counters.without_doubts(), replans=0), self._policy) is not None

    def _is_last_replan(self) -> bool:
        return self._counters.replans >= self._policy.max_replans

    async def _finished(self) -> Task:
        task = self._current()
        completed = [subtask for subtask in task.subtasks if subtask.status is SubTaskStatus.COMPLETED]
        if not completed:
            raise await self._failure("no subtask completed")
        await self._report(PlanEventKind.COMPLETED)
        return task

    async def _failure(self, reason: str) -> PlanFailed:
        task = self._current()
        for subtask in task.subtasks:
            if subtask.status is SubTaskStatus.FAILED:
                task = skip_dependants(task, subtask.id)
        self._task = task
        self.plans.append(task)
        await self._report(PlanEventKind.FAILED, message=reason)
        after = f" after {self._counters.replans} replans" if self._counters.replans else ""
        return PlanFailed(f"the plan failed{after}: {reason}.", self.plans, simpler_goal(task))

    async def _stop(self) -> None:
        """Cancels what is executing, the planner and checks of the alignment, and waits for their end."""
        running: list[asyncio.Task[Any]] = list(self._running)
        if self._asked is not None:
            running.append(self._asked.reply)
        running += self._checks.tasks
        for each in running:
            each.cancel()
        if running:
            done, left = await asyncio.wait(running, timeout=GRACE)
            for each in done:
                if not each.cancelled() and (error := each.exception()) is not None:
                    _log.debug("%s ended with an error: %s", each.get_name(), error)
            for each in left:
                _log.warning("%s ignores that it was cancelled", each.get_name())
        self._running.clear()
        self._checks.abandon()
        self._asked = None
        self._task = _without_executing(self._current())

    def _current(self) -> Task:
        assert self._task is not None
        return self._task

    async def _report(self, kind: PlanEventKind, subtask: SubTask | None = None, message: str = "") -> None:
        await report(self._on_event, PlanEvent(kind, self._task, subtask, message))


def _without_executing(task: Task) -> Task:
    """Returns the task in which what was executing waits again: it was stopped."""
    subtasks = tuple(
        subtask.with_status(SubTaskStatus.PENDING) if subtask.status is SubTaskStatus.EXECUTING else subtask
        for subtask in task.subtasks
    )
    return replace(task, subtasks=subtasks)
