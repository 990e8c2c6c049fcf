"""Reads the replies of planners, whose text the engine does not read: a plan, or a question to a person."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import Any, Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError
from archon.wire import text_of
from archon_mesh.core.people import QuestionKind
from archon_mesh.engine import RunState
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.dispatch.step import goal_text

MAX_CLARIFICATIONS: Final = 3
"""Questions that a planner may ask before it has to plan."""

_log = logging.getLogger(__name__)

_FIELDS: Final = tuple(field.name for field in fields(inp.ResultIn))


def with_plan(run: RunState, given: inp.Input) -> inp.Input:
    """Returns the input; if it is the result of the planner's task, with the plan that its text is, or its faults."""
    plan = run.plan
    if plan is None or type(given) is not inp.ResultIn or given.task_id not in (plan.planner, plan.alignment):
        return given
    result = given.payload
    if given.state is not TaskState.COMPLETED or not isinstance(result, agent_pb2.TaskResult):
        return given
    from archon_mesh.planning.parse import parse_changes, parse_plan, parse_question  # only runs with a plan need it

    if given.task_id == plan.alignment:
        return _verdict(run, given, text_of(result.output))
    values, text = {name: getattr(given, name) for name in _FIELDS}, text_of(result.output)
    if (question := parse_question(text)) and len(run.tasks[given.task_id].questions) < MAX_CLARIFICATIONS:
        return _asking(given, values, result, question)
    try:
        parsed = parse_plan(text, goal_text(run), given.task_id)
        return inp.PlanIn(**values, plan=parsed, changes=parse_changes(text))
    except ArchonError as error:
        return inp.PlanIn(**values, faults=(("", error.message),))


def _verdict(run: RunState, given: inp.ResultIn, text: str) -> inp.PlanIn:
    """The result of a check of the plan: with another plan, and the reason for it, or without, if the plan is aligned,
    or the reply cannot be read."""
    from archon_mesh.planning.parse import parse_alignment  # only runs with a plan need it

    values = {name: getattr(given, name) for name in _FIELDS}
    try:
        plan, reason, changes = parse_alignment(text, goal_text(run), given.task_id)
    except ArchonError as error:
        run_id = given.task_id.rpartition(".")[0]
        _log.warning(
            "run %s: the planner does not say whether the plan still leads to the goal, so that it goes on: %s",
            run_id,
            error.message,
            extra={"run_id": run_id},
        )
        return inp.PlanIn(**values, faults=(("", error.message),))
    return inp.PlanIn(**values, plan=plan, changes=changes, reason=reason)


def _asking(given: inp.ResultIn, values: dict[str, Any], result: agent_pb2.TaskResult, question: str) -> inp.QuestionIn:
    """The result as one that asks a person: the answer is part of the input of the planner's next attempt."""
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_INPUT_REQUIRED)
    if result.HasField("usage"):
        payload.usage.CopyFrom(result.usage)
    request = payload.input_request
    request.input_id = values["input_id"] = f"clarification-{given.attempt}"
    request.prompt.add(text=question)
    values |= {"state": TaskState.INPUT_REQUIRED, "payload": payload, "checkpointed": False, "items": ()}
    return inp.QuestionIn(**values, kind=QuestionKind.INPUT)
