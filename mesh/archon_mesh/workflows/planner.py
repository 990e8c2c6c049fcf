"""A workflow as the maker of plans, for an agent that executes it in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from archon.errors import FailedPrecondition
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task, expanded
from archon_mesh.engine.plan.templates import as_text
from archon_mesh.planning.available_tools import AvailableTools
from archon_mesh.planning.plan_template import ARGUMENTS_KEY, TEMPLATE_KEY
from archon_mesh.workflows.expand import Later, StepResult, expand, expand_on_thread, results_of
from archon_mesh.workflows.parameters import checked_arguments, json_schema
from archon_mesh.workflows.workflow import Workflow

CONTEXT_KEY: Final = TEMPLATE_KEY
"""The name of the value in a plan's context that says which workflow made it."""


class WorkflowPlanner:
    """Makes the plan of a workflow, and expands it: `agent.run_task(query, planner=WorkflowPlanner(workflow, {...}))`.

    Raises InvalidArgument if the arguments are wrong. A failed step is replaced by its error branch only: without one
    there is no replan, and the plan fails.
    """

    def __init__(self, workflow: Workflow, arguments: Mapping[str, Any] | None = None) -> None:
        self.workflow = workflow
        self.arguments = checked_arguments(workflow.reference, workflow.parameters, arguments or {})

    @property
    def request(self) -> str:
        """The workflow and its arguments: a journal that was begun with others is not theirs."""
        return f"{self.workflow.reference} {json.dumps(self.arguments, sort_keys=True, default=str)}"

    async def create_plan(
        self, goal: str, available_tools: AvailableTools = (), initial_context: Mapping[str, Any] | None = None
    ) -> Task:
        """Returns the known part of the plan before anything is executed. Raises InvalidArgument."""
        return await self.plan(goal, uuid4().hex, initial_context)

    async def plan(self, goal: str, task_id: str, initial_context: Mapping[str, Any] | None = None) -> Task:
        """Returns the plan with `task_id` and, in its context, the workflow and its arguments."""
        made_by = {CONTEXT_KEY: self.workflow.reference, ARGUMENTS_KEY: self.arguments}
        context = {**(initial_context or {}), **made_by}
        return Task(task_id, goal, goal, await self._subtasks({}), context)

    async def replan(
        self, task: Task, reason: str, available_tools: AvailableTools = (), *, split: Sequence[str] = ()
    ) -> Task:
        """Raises FailedPrecondition: a workflow is not planned anew."""
        raise FailedPrecondition(f"workflow {self.workflow.reference}: {failure_of(task) or reason}")

    async def expand(self, task: Task, places: Sequence[str], available_tools: AvailableTools = ()) -> Task:
        """Returns the task with the subtasks made known by its results. Raises InvalidArgument if a template fails."""
        subtasks = await self._subtasks(results_of(task))
        return expanded(task, Task(task.id, task.original_query, task.goal, subtasks), places)

    def answer(self, task: Task) -> str | None:
        """Returns the result of the last step as text; of several last steps one after the other."""
        # Templates that are rendered by another process were, when the steps that read them became known.
        value = expand(self.workflow, self.arguments, results_of(task)).value
        return None if isinstance(value, Later) else text_of_value(value)

    async def _subtasks(self, results: Mapping[str, StepResult]) -> tuple[SubTask, ...]:
        return (await expand_on_thread(self.workflow, self.arguments, results)).subtasks


class WorkflowTemplate:
    """A workflow that a Planner may answer with: `Planner(model, templates=[WorkflowTemplate(workflow)])`."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow

    @property
    def name(self) -> str:
        return self.workflow.name

    @property
    def reference(self) -> str:
        return self.workflow.reference

    @property
    def description(self) -> str:
        return self.workflow.description

    @property
    def parameters_schema(self) -> Mapping[str, Any]:
        return json_schema(self.workflow.parameters)

    def planner(self, arguments: Mapping[str, Any]) -> WorkflowPlanner:
        """Returns the planner for these arguments. Raises InvalidArgument."""
        return WorkflowPlanner(self.workflow, arguments)


def failure_of(task: Task) -> str:
    """Returns which steps failed, and why; empty if none did."""
    failed = [each for each in task.subtasks if each.status is SubTaskStatus.FAILED and each.critical]
    return "; ".join(f"step {each.id} failed: {each.result}" for each in failed[:5])


def text_of_value(value: Any) -> str:
    """Returns the value of the last steps as the answer."""
    if isinstance(value, list):
        return "\n\n".join(text_of_value(each) for each in value if each is not None)
    return "" if value is None else as_text(value)
