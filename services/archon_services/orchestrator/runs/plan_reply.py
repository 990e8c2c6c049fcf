"""Reads the replies of planners, of which the engine reads no text."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.errors import ArchonError
from archon.wire import text_of
from archon_mesh.core.run import RunState
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import TaskState
from archon_services.orchestrator.dispatch.step import goal_text

_FIELDS: Final = tuple(field.name for field in fields(inp.ResultIn))


def with_plan(run: RunState, given: inp.Input) -> inp.Input:
    """Returns the input; if it is the result of the planner's task, with the plan that its text is, or its faults."""
    plan = run.plan
    if plan is None or type(given) is not inp.ResultIn or given.task_id != plan.planner:
        return given
    result = given.payload
    if given.state is not TaskState.COMPLETED or not isinstance(result, agent_pb2.TaskResult):
        return given
    from archon_mesh.planning import parse_changes, parse_plan  # only runs with a plan need it

    values, text = {name: getattr(given, name) for name in _FIELDS}, text_of(result.output)
    try:
        parsed = parse_plan(text, goal_text(run), given.task_id)
        return inp.PlanIn(**values, plan=parsed, changes=parse_changes(text))
    except ArchonError as error:
        return inp.PlanIn(**values, faults=(("", error.message),))
