"""Checks the result of a step against its plan's expectation, before anything builds on it."""

from __future__ import annotations

from dataclasses import replace

from archon.api.agent.v1 import agent_pb2
from archon.failure_kinds import MODEL_FORMAT, RetryAdvice
from archon.wire import text_of
from archon_mesh.engine import RunState
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import RESULT_REFUSED, Failure, TaskState


def with_checked_result(run: RunState, given: inp.Input) -> inp.Input:
    """Returns the input; if it is the result of a step that does not match its `expected_output` or its
    `output_schema`, as a failure whose reason the next attempt receives."""
    plan = run.plan
    if plan is None or type(given) is not inp.ResultIn or given.state is not TaskState.COMPLETED:
        return given
    task, result = run.tasks.get(given.task_id), given.payload
    step = plan.steps.get(task.step_id) if task is not None and plan.in_force(task) else None
    if step is None or not (step.expected_output or step.output_schema) or not isinstance(result, agent_pb2.TaskResult):
        return given
    from archon_mesh.planning.check import check_by_rules  # only runs with a plan need it

    if not (problem := check_by_rules(step, text_of(result.output))):
        return given
    message = f"the result of step {step.id!r} was refused: {problem}"
    failure = Failure(
        "FAILED_PRECONDITION",
        RESULT_REFUSED,
        message,
        kind=MODEL_FORMAT,
        retry=int(RetryAdvice.LATER),
        violations=((step.id, problem),),
    )
    return replace(given, state=TaskState.FAILED, failure=failure)
