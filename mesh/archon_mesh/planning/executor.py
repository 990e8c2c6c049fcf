"""Executes a plan in this process: a run of the engine, whose steps are executed by a worker."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from archon.errors import FailedPrecondition, InvalidArgument, OperationCancelled
from archon_mesh.core.people import Decision
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.plan import Plan, Task
from archon_mesh.engine.types import NOTHING, Amount
from archon_mesh.planning.attempt_meter import AttemptMeter, RestReservation
from archon_mesh.planning.attempts import Measured
from archon_mesh.planning.journal import JournalMismatch, PlanJournal, journal_of
from archon_mesh.planning.plan_execution import PlanExecution
from archon_mesh.planning.plan_question import PlanQuestion
from archon_mesh.planning.records import Asked, PlanRecords, checked_asked


class PlanExecutor(PlanExecution):
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

    `rules` say when a person is asked about the plan, as rules of the mesh do; `respond` answers, and `questions` has
    the open questions. Within `answered_by`, and in a task of the mesh, the person there is asked. With `takes_answers`
    tools and the planner may ask too: otherwise, where there is no such person, a tool that asks fails. `budget` limits
    the whole plan; `pause_timeout` the seconds that it may be paused, or wait for a person, at a stretch (0: no limit).

    `combine` writes the answer of a plan with several final results; without it such a plan has none of its own.

    `task` is the plan as it is now, at any time; `plans` has those that were given up; `measured` has the measurements
    of each subtask.
    """

    @property
    def task(self) -> Task | None:
        """The plan as it is now, or None before the first one."""
        return self._progress.task if self._progress is not None and self._made is not None else None

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

    @property
    def answer(self) -> str | None:
        """The answer that `combine` has written; None if the plan needed none, or has not ended."""
        state = self._run.state if self._run is not None else None
        if state is None or state.plan is None or not state.plan.synthesis or self._combine is None:
            return None
        payload = state.tasks[state.plan.synthesis].payload
        return payload if isinstance(payload, str) else None

    @property
    def spent(self) -> Amount:
        """The tokens, the cost in millionths of a US dollar, and the model calls that count against the budget so far;
        nothing without a limit of them."""
        return self._run.state.spent if self._run is not None else NOTHING

    def rest_meter(self) -> AttemptMeter | None:
        """Returns the meter of model calls that come after the plan, None if its budget has no limit of them."""
        run, limits = self._run, self._budget.limits
        if run is None or run.state.submission is None or not limits.limited:
            return None
        return AttemptMeter(limits, RestReservation(run.state))

    def questions(self) -> list[PlanQuestion]:
        """Returns the open questions to people: of rules, of tools, and of the planner."""
        return self._people.questions(self._run) if self._run is not None and not self._run.over else []

    def respond(
        self, question: str, answer: Any = "", *, decision: Decision | str | None = None, identity: str = ""
    ) -> None:
        """Answers the open question with this id. Durable when it returns, if there is a journal.

        An approval needs a `decision`: approve, reject or modify, or an answer that says so, such as `yes`. A
        modification is the answer: a plan, or its JSON text, in place of a plan; else the result of the step.
        `identity` names the person, for questions with approvers. The same answer again is no error.

        Raises FailedPrecondition if the question is not open, PermissionDenied if the person may not answer it,
        InvalidArgument if the answer cannot be used, and the errors of the journal.
        """
        run = self._run
        if run is None or run.over:
            raise FailedPrecondition("no plan is being executed")
        self._people.respond(run, question, answer, decision, identity)

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

    async def carry_out(self, task: Task, records: PlanRecords | None = None) -> Task:
        """As `execute`, with records that hold the task; if they have events of its run, as `resume_from`."""
        Plan.of(task)
        return await self._carry_out(task, Task(task.id, task.original_query, task.goal, ()), records)

    async def answer_query(
        self, query: str, context: Mapping[str, Any] | None = None, records: PlanRecords | None = None
    ) -> Task:
        """Has the planner make a plan for a query, with values that it may use, and executes it: making the plan is a
        part of its run. With records that hold a plan, or events of its run, goes on with them. Returns and raises as
        `execute` does, and raises the errors of the planner. A plan without subtasks, whose planner has an answer
        nevertheless, is returned as it is."""
        if self._planner is None:
            raise FailedPrecondition("there is no planner to make a plan")
        self._context = context or {}
        stored = records.stored.plan if records is not None else None
        return await self._carry_out(stored, Task(uuid.uuid4().hex, query, query, (), self._context), records)
