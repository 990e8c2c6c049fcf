"""The tasks of a run as steps and sub-agents of AG-UI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ag_ui.core import (
    BaseEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
)

from archon.run_view import RunView, TaskView
from archon.types.task_state import TaskState


@dataclass(slots=True)
class TaskSteps:
    """A step for each task in progress. A task whose answer is not one of the run's is a sub-agent as well: its id is
    the id of the task. Front ends before version 1.0 of the protocol know no sub-agents, and steps by their names."""

    modern: bool
    _steps: dict[str, str] = field(default_factory=dict)
    """Names of the open steps, by task id."""
    _begun: set[str] = field(default_factory=set)
    """The sub-agents that this stream has begun, ended or not."""

    def owner_of(self, view: RunView, task: TaskView) -> str | None:
        """Returns the sub-agent that a task is; None if it is the agent itself, or the front end knows none."""
        return None if not self.modern or is_main(view, task) else task.task_id

    def is_open(self, task_id: str) -> bool:
        """Whether the step of a task was begun and has not ended."""
        return task_id in self._steps

    def begin(self, view: RunView, task: TaskView) -> list[BaseEvent]:
        """Begins the step of a task, and the sub-agent, unless it is begun."""
        if task.task_id in self._steps:
            return []
        out: list[BaseEvent] = []
        owner = self.owner_of(view, task)
        if owner is not None and owner not in self._begun:
            parent = view.tasks.get(task.parent_task_id)
            if parent is not None and not self.is_open(parent.task_id) and parent.task_id not in self._begun:
                out += self.begin(view, parent)
            self._begun.add(owner)
            out.append(
                SubagentStartedEvent(
                    subagent_run_id=owner,
                    name=task.role,
                    description=(task.step.description[:1_000] or None) if task.step is not None else None,
                    parent_subagent_run_id=self.owner_of(view, parent) if parent is not None else None,
                )
            )
        name = task.label if task.label not in self._steps.values() else f"{task.label} {task.task_id}"
        self._steps[task.task_id] = name
        return [*out, StepStartedEvent(step_name=name, subagent_run_id=owner)]

    def end(self, view: RunView, task: TaskView, interrupts: Sequence[str] | None = None) -> list[BaseEvent]:
        """Ends the step of a task, and the sub-agent: with the task, or until the `interrupts` are answered."""
        name = self._steps.pop(task.task_id, None)
        if name is None:
            return []
        owner = self.owner_of(view, task)
        out: list[BaseEvent] = [StepFinishedEvent(step_name=name, subagent_run_id=owner)]
        if owner is None:
            return out
        if interrupts is not None:
            outcome = SubagentFinishedSuspendedOutcome(interrupt_ids=list(interrupts))
            return [*out, SubagentFinishedEvent(subagent_run_id=owner, outcome=outcome)]
        if task.state is TaskState.COMPLETED:
            return [*out, SubagentFinishedEvent(subagent_run_id=owner)]
        failure = task.failure
        message = (failure.message if failure is not None else "") or f"the task was {task.state.value}"
        code = (failure.reason or failure.kind) if failure is not None else ""
        return [*out, SubagentErrorEvent(subagent_run_id=owner, message=message, code=code or task.state.value.upper())]

    def end_all(self, view: RunView, interrupts: Mapping[str, Sequence[str]] | None = None) -> list[BaseEvent]:
        """Ends all steps, the newest first. `interrupts` has the ids of the interrupts of each task that asked."""
        out: list[BaseEvent] = []
        for task_id in reversed(list(self._steps)):
            asked = None if interrupts is None else interrupts.get(task_id, ())
            out += self.end(view, view.tasks[task_id], asked)
        return out


def is_main(view: RunView, task: TaskView) -> bool:
    """Whether the answer of a task is one of the run's, as far as is known before its end."""
    if task.parent_task_id or task.step_id or view.strategy == "plan":
        return False
    return all(upstream != task.role for upstream, _ in view.edges)
