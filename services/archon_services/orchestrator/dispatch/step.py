"""The input of a task that executes a step, or that makes the plan; from journaled facts alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError
from archon.wire import text_of
from archon_mesh.engine import RunState, Task
from archon_mesh.engine.decide.plan_reply import max_steps
from archon_mesh.engine.decisions import UNDECIDED_REQUEST
from archon_mesh.engine.plan import MissingKey, SubTask, fill_arguments
from archon_mesh.engine.plan.templates import root_of, template_keys
from archon_mesh.engine.types import Failure, TaskState
from archon_services.orchestrator.convert.failures import failure_from_error
from archon_services.orchestrator.convert.people import given_from_payload
from archon_services.orchestrator.convert.plan import output_of, write_plan


def write_step(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """Writes the input of a step: its description, the arguments of its tool, and which tool it may use."""
    assert run.plan is not None
    step = run.plan.steps[task.step_id]
    assigned.step_id, assigned.expected_output = step.id, step.expected_output
    if step.output_schema:
        assigned.output_schema_json = json.dumps(step.output_schema, ensure_ascii=False, separators=(",", ":"))
    assigned.refusal = "; ".join(task.faults)
    assigned.input.add(text=step.description or f"Call the tool {step.tool_name}.")
    if (wanted := run.plan.steps.get(step.bid_for)) is not None:
        request = assigned.bid_request
        request.description = wanted.description or f"Call the tool {wanted.tool_name}."
        request.expected_output, request.capability = wanted.expected_output, wanted.capability
    if step.decision:
        assigned.input.add(text=_choice(run, task))
        return
    if step.tool_name:
        assigned.allowed_tools.append(step.tool_name)
        assigned.exact = step.exact
    if step.tool_args:
        assigned.tool_args_json = json.dumps(_filled(run, step), ensure_ascii=False, separators=(",", ":"))
        if step.tool_name:  # a member of a swarm has the items of its list as arguments, and no tool
            assigned.input.add(text=f"Arguments of the tool {step.tool_name}:\n{assigned.tool_args_json}")


def _choice(run: RunState, task: Task) -> str:
    """Text of the request to the role that decides in place of a rule, with the answers to choose from."""
    lines = [UNDECIDED_REQUEST]
    for id_ in task.predecessors:
        other = run.tasks[id_]
        if other.state is TaskState.COMPLETED:
            lines.append(f"{other.label}:\n{text_of(output_of(other))}")
    return "\n\n".join(lines)


def input_failure(run: RunState, task: Task) -> Failure | None:
    """Returns why the input of a ready task cannot be made; None if it can."""
    if not task.step_id or run.plan is None:
        return None
    step = run.plan.steps[task.step_id]
    if not step.tool_args or step.decision:
        return None
    try:
        _filled(run, step)
    except ArchonError as error:
        return failure_from_error(error)
    return None


def _filled(run: RunState, step: SubTask) -> dict[str, Any]:
    """The arguments of a step with the results that they name. A path that a result does not have is replaced by the
    whole result; an unknown name by the result of the only dependency. Raises MissingKey, ArgumentsTooLarge."""
    plan = run.plan
    assert plan is not None
    values: dict[str, Any] = dict(plan.context)
    for key in template_keys(step.tool_args, plan.steps):
        id_ = root_of(key, plan.steps)
        if id_ is not None and run.tasks[plan.tasks[id_]].state is TaskState.COMPLETED:
            values[id_] = text_of(output_of(run.tasks[plan.tasks[id_]]))
    while True:
        try:
            return fill_arguments(step.tool_args, values)
        except MissingKey as error:
            whole = _whole_result(run, step, error.key, values)
            if whole is None or error.key in values:
                raise
            values[error.key] = whole


def _whole_result(run: RunState, step: SubTask, key: str, values: Mapping[str, Any]) -> Any:
    plan = run.plan
    assert plan is not None
    if (root := root_of(key, values)) is not None:
        return values[root]
    if len(step.dependencies) != 1 or root_of(key, plan.steps) is not None:
        return None
    task = run.tasks[plan.tasks[step.dependencies[0]]]
    return text_of(output_of(task)) if task.state is TaskState.COMPLETED else None


def write_plan_request(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """Writes the request to the planner: a plan, whether the one in force still leads to the goal, or the synthesis of
    the results."""
    plan, submission = run.plan, run.submission
    assert plan is not None
    assert submission is not None
    for question, answer in _clarifications(task):
        assigned.input.add(text=f"You asked: {question}\nThe answer: {answer}")
    request = assigned.plan_request
    request.SetInParent()
    if plan.steps:
        write_plan(run, request.previous, results=task.task_id != plan.synthesis)
    if task.task_id == plan.synthesis:
        request.synthesise = True
        return
    if isinstance(submission.goal, run_pb2.Submitted):
        request.targets.extend(submission.goal.plan_targets)
    request.max_steps, request.revision, request.reason = max_steps(run), plan.revision + 1, plan.reason
    request.faults.extend(task.faults)
    request.expand.extend(plan.expanding)
    request.align = task.align


def _clarifications(task: Task) -> Iterator[tuple[str, str]]:
    """Yields the planner's questions and the answers."""
    prompts = {
        f"{task.task_id}/{question.input_request.input_id.removeprefix(f'{task.task_id}/')}": text_of(
            question.input_request.prompt
        )
        for question in task.questions
        if isinstance(question, agent_pb2.TaskResult)
    }
    for payload in task.inputs:
        answer = given_from_payload(payload)
        if (prompt := prompts.get(answer.input_id)) is not None:
            yield prompt, text_of(answer.parts)


def goal_text(run: RunState) -> str:
    """Returns the text of the run's goal."""
    assert run.submission is not None
    goal = run.submission.goal
    parts: list[common_pb2.Part] = list(goal.goal) if isinstance(goal, run_pb2.Submitted) else []
    return text_of(parts)
