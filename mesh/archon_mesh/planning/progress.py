"""A plan as it is now, and the events reported about it: folded from the events of the run that executes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from archon_mesh.core.people import TimeoutPolicy
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task
from archon_mesh.engine.plan_progress import status_of
from archon_mesh.engine.types import TaskState
from archon_mesh.planning.attempts import Measured
from archon_mesh.planning.events import PlanEvent, PlanEventKind

KEPT: Final = "the plan is kept"
"""The change of a plan that stays in place of another one, which the planner did not make."""


class PlanProgress:
    """The progress of one execution. It begins with the plan `given`; `begin` replaces it if that has no subtasks yet.
    `measured_of` returns the measurements of a subtask by the id of its task.

    `task` is the plan as it is now, `plans` has those that were given up, `measured` the measurements of each subtask.
    """

    def __init__(self, given: Task, measured_of: Callable[[str], Measured | None]) -> None:
        self.task = _without_executing(given)
        self.plans: list[Task] = []
        self.measured: dict[str, Measured] = {}
        self._given = {subtask.id: subtask for subtask in given.subtasks if subtask.has_ended}
        """The subtasks that had ended before, and have not been given to the run yet."""

        self._measured_of = measured_of
        self._numbers: dict[str, int] = {}
        self._begun: set[str] = set()
        """The tasks of the run whose first attempt in this process was made."""
        self._events: list[PlanEvent] = []
        self._reason = ""
        """The reason for the last request to the planner, and the subtasks to replace."""
        self._places: tuple[str, ...] = ()

    def begin(self, made: Task) -> None:
        """Begins with a plan that was made in the execution."""
        self.task = _without_executing(made)
        self._given = {subtask.id: subtask for subtask in made.subtasks if subtask.has_ended}
        self._add(PlanEventKind.CREATED)

    def is_given(self, id_: str) -> bool:
        """Tells whether a subtask had ended before the execution."""
        return id_ in self._given

    def take_given(self, id_: str) -> SubTask | None:
        """Returns a subtask that had ended before the execution, once."""
        return self._given.pop(id_, None)

    def subtask(self, id_: str) -> SubTask:
        """Returns the subtask of an id that the plan has."""
        subtask = self.task.get_subtask(id_)
        assert subtask is not None
        return subtask

    def number_of(self, id_: str) -> int:
        """Returns the position of a subtask, which does not depend on when other subtasks end or are expanded."""
        for subtask in self.task.subtasks:
            self._numbers.setdefault(subtask.id, len(self._numbers) + 1)
        return self._numbers[id_]

    def continued(self, *, is_over: bool) -> None:
        """Marks the events so far as events of a process before, which has reported them."""
        self._events = [] if is_over else [PlanEvent(PlanEventKind.CONTINUED, self.task)]
        self._begun.clear()

    def stopped(self) -> None:
        """The execution has ended: executing subtasks wait again."""
        self.task = _without_executing(self.task)

    def take_events(self) -> list[PlanEvent]:
        """Returns the events to report, in order, once."""
        events, self._events = self._events, []
        return events

    def observe(self, run: RunState, event: ev.Event) -> None:
        """Folds an event; `run` is the state after it."""
        match event:
            case ev.TaskCreated(step_id="", align=False) if run.plan is not None:
                self._reason, self._places = run.plan.reason, run.plan.expanding
            case ev.Planned():
                self._planned(run, event)
            case ev.Dispatched() | ev.Retried() | ev.ResultReceived() | ev.TaskEnded() | ev.TaskStopping():
                task = run.tasks[event.task_id]
                if run.plan is not None and run.plan.in_force(task):
                    self._step(run, event, task.step_id)
            case ev.ApprovalRequested():
                self._asked(run, event, event.message)
            case ev.InputRequested():
                payload = event.payload
                self._asked(run, event, str(payload["text"]) if isinstance(payload, dict) else "")
            case ev.QuestionTimedOut(policy=TimeoutPolicy.ESCALATE):
                asking = run.tasks[event.task_id].asking
                self._asked(run, event, f"{', '.join(asking.approvers) if asking else ''} may answer now")
            case ev.InputGiven() | ev.QuestionTimedOut():
                self._answered(run, event)
            case ev.Paused():
                self._add(PlanEventKind.PAUSED)
            case ev.Resumed():
                self._add(PlanEventKind.RESUMED)

    def _planned(self, run: RunState, event: ev.Planned) -> None:
        if event.revision == 1:
            self._began(event)
            return
        plan = run.plan
        assert plan is not None
        before = {subtask.id: subtask for subtask in self.task.subtasks}

        def now(step: SubTask) -> SubTask:
            if (task_id := plan.tasks.get(step.id)) is None:
                return step
            status = status_of(run, task_id)
            return replace(step, status=status, result=before[step.id].result if step.id in before else None)

        old, reason = self.task, event.reason
        steps = tuple(map(now, event.plan.subtasks))
        self.task = Task(old.id, old.original_query, event.plan.goal or old.goal, steps, event.plan.context)
        if event.expansion:
            self._add(PlanEventKind.EXPANDED, message=", ".join(self._places))
        elif event.edit_id:
            self._add(PlanEventKind.EDITED)
        elif KEPT not in event.changes:
            self.plans.append(old)
            self._add(PlanEventKind.REPLANNED, message=reason or self._reason)

    def _began(self, event: ev.Planned) -> None:
        """The first plan is in force: the one that was made, or the one that a person gave in its place."""
        made = {subtask.id: subtask for subtask in self.task.subtasks}

        def now(step: SubTask) -> SubTask:
            known = made.get(step.id)
            same = known is not None and replace(known, status=step.status, result=step.result) == step
            return known if known is not None and same else step

        steps = tuple(map(now, event.plan.subtasks))
        if steps == self.task.subtasks:
            return
        self._given = {id_: given for id_, given in self._given.items() if given in steps}
        self.task = replace(self.task, goal=event.plan.goal or self.task.goal, subtasks=steps)
        self._add(PlanEventKind.EDITED)

    def _step(
        self,
        run: RunState,
        event: ev.Dispatched | ev.Retried | ev.ResultReceived | ev.TaskEnded | ev.TaskStopping,
        id_: str,
    ) -> None:
        subtask = self.subtask(id_)
        if run.tasks[event.task_id].unneeded:
            if subtask.status is not SubTaskStatus.SKIPPED:
                skipped = subtask.with_status(SubTaskStatus.SKIPPED)
                self._update(skipped, PlanEventKind.SUBTASK_SKIPPED, "no subtask needs its result")
            return
        match event:
            case ev.Dispatched():
                if event.task_id not in self._begun and not self.is_given(id_):
                    self._begun.add(event.task_id)
                    self._update(subtask.with_status(SubTaskStatus.EXECUTING), PlanEventKind.SUBTASK_STARTED)
            case ev.Retried():
                self._add(PlanEventKind.SUBTASK_RETRIED, subtask, event.failure.message)
            case ev.ResultReceived(state=TaskState.COMPLETED):
                done = subtask.with_result(event.payload)
                self._ended(event.task_id, done, PlanEventKind.SUBTASK_COMPLETED)
            case ev.ResultReceived(state=TaskState.CANCELED):
                self.task = self.task.update_subtask(subtask.with_status(SubTaskStatus.PENDING))
            case ev.ResultReceived():
                message = event.failure.message if event.failure is not None else ""
                failed = replace(subtask, status=SubTaskStatus.FAILED, result=message)
                self._ended(event.task_id, failed, PlanEventKind.SUBTASK_FAILED, message)
            case ev.TaskEnded():
                failed_id = dict(event.failure.metadata).get("step_id") if event.failure is not None else None
                if failed_id is not None:
                    skipped = subtask.with_status(SubTaskStatus.SKIPPED)
                    message = f"it depends on {failed_id}, which failed"
                    self._update(skipped, PlanEventKind.SUBTASK_SKIPPED, message)
                elif event.state is TaskState.FAILED and event.failure is not None:
                    poisoned = event.failure.reason == "POISONED"
                    message = "its process ended at each attempt" if poisoned else event.failure.message
                    failed = replace(subtask, status=SubTaskStatus.FAILED, result=message)
                    self._ended(event.task_id, failed, PlanEventKind.SUBTASK_FAILED, message)

    def _ended(self, task_id: str, subtask: SubTask, kind: PlanEventKind, message: str = "") -> None:
        measured = self._measured_of(task_id)
        if measured is None and not subtask.decision:  # it had ended before the execution
            self.task = self.task.update_subtask(subtask)
            return
        if measured is not None:
            self.measured[subtask.id] = measured
        self._update(subtask, kind, message)

    def _update(self, subtask: SubTask, kind: PlanEventKind, message: str = "") -> None:
        self.task = self.task.update_subtask(subtask)
        self._add(kind, subtask, message)

    def _asked(
        self, run: RunState, event: ev.InputRequested | ev.ApprovalRequested | ev.QuestionTimedOut, text: str
    ) -> None:
        step_id = run.tasks[event.task_id].step_id
        subtask = self.task.get_subtask(step_id) if step_id else None
        self._events.append(PlanEvent(PlanEventKind.ASKED, self.task, subtask, text, event.input_id))

    def _answered(self, run: RunState, event: ev.InputGiven | ev.QuestionTimedOut) -> None:
        if isinstance(event, ev.QuestionTimedOut):
            how = "timed out"
        elif not event.identity and not event.digest:
            return  # the default answer, after the time
        else:
            how = event.decision.name.lower() if event.decision else "answered"
        step_id = run.tasks[event.task_id].step_id
        subtask = self.task.get_subtask(step_id) if step_id else None
        self._events.append(PlanEvent(PlanEventKind.ANSWERED, self.task, subtask, how, event.input_id))

    def _add(self, kind: PlanEventKind, subtask: SubTask | None = None, message: str = "") -> None:
        self._events.append(PlanEvent(kind, self.task, subtask, message))


def _without_executing(task: Task) -> Task:
    """Returns the task in which executing subtasks wait again: it was stopped."""
    subtasks = tuple(
        subtask.with_status(SubTaskStatus.PENDING) if subtask.status is SubTaskStatus.EXECUTING else subtask
        for subtask in task.subtasks
    )
    return replace(task, subtasks=subtasks)
