"""The role that plans for workflows: interprets a workflow for a run of the mesh, and asks people for approvals.

A run carries its workflow and the arguments in its goal, so that an edited file changes no run, and any instance can
go on with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon.agent import AgentServer, AgentSettings, Answer, PlanRequest, Question, TaskContext
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.errors import FailedPrecondition, InvalidArgument, PlanFailed
from archon.registry import Tool
from archon.types import Part
from archon.wire import TEXT_TYPE, text_of
from archon_mesh.engine.plan import SubTask
from archon_mesh.tools.people.sdk_questions import to_answer, to_question
from archon_mesh.workflows.approval import APPROVE, SCHEMA, approval_question, approved
from archon_mesh.workflows.expand import StepResult, expand_on_thread
from archon_mesh.workflows.planner import CONTEXT_KEY
from archon_mesh.workflows.workflow import Workflow

ROLE: Final = "workflow"

MEDIA_TYPE: Final = "application/vnd.archon.workflow+json"
"""Of the part of a goal that has the workflow and its arguments."""

REFERENCE_KEY: Final = "dev.archon/workflow"
"""The metadata of a run that says name and version of its workflow."""

MAX_WORKFLOW_BYTES: Final = 1024 * 1024
"""Size of a workflow with its arguments in a goal."""

NOTHING: Final = "nothing_to_do"
"""The tool of the only step of a workflow whose conditions and lists leave nothing to do."""

NOTHING_DONE: Final = "There was nothing to do."

_FIELDS: Final = (
    *("id", "description", "expected_output", "tool_name", "tool_args", "dependencies", "role", "capability"),
    *("critical", "partial_input", "expand", "expand_on_failure", "output_schema", "exact"),
    *("quorum", "delay_seconds", "delay_quantile", "decision", "timeout_seconds", "assigned_by", "bid_for"),
)


def goal_of(workflow: Workflow, arguments: Mapping[str, Any]) -> list[Part]:
    """Returns the goal of a run that executes a workflow. Raises InvalidArgument if it is too large."""
    data = json.dumps({"workflow": workflow.to_json_value(), "arguments": dict(arguments)}, ensure_ascii=False)
    if len(data.encode()) > MAX_WORKFLOW_BYTES:
        message = f"workflow {workflow.reference} and its arguments have more than {MAX_WORKFLOW_BYTES:,} bytes"
        raise InvalidArgument(message)
    text = f"Workflow {workflow.reference}" + (f": {workflow.description}" if workflow.description else "")
    return [Part(text=text), Part(data_json=data, media_type=MEDIA_TYPE)]


def workflow_in(parts: Sequence[common_pb2.Part]) -> tuple[Workflow, dict[str, Any]]:
    """Returns the workflow of a goal, and its arguments. Raises InvalidArgument if there is none."""
    for part in parts:
        if part.media_type == MEDIA_TYPE:
            try:
                data = json.loads(part.data_json)
                return Workflow.from_json_value(data["workflow"]), dict(data["arguments"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InvalidArgument(f"the workflow in the goal cannot be read: {error}") from None
    raise InvalidArgument("the goal has no workflow: start one with `archon workflow run NAME`")


def workflow_server(settings: AgentSettings | None = None) -> AgentServer:
    """Returns the server of the role, not started."""
    return AgentServer(
        ROLE,
        description="Executes workflow templates.",
        tools=[
            Tool(APPROVE, description="Asks a person for an approval.", input_schema_json=json.dumps(SCHEMA)),
            Tool(
                NOTHING, description="Ends a workflow that has nothing to do.", input_schema_json='{"type": "object"}'
            ),
        ],
        planner=True,  # steps of other plans, and delegations, do not go to it
        max_tasks=32,
        handler=handle,
        settings=settings,
    )


async def handle(task: TaskContext) -> Answer | str | Question:
    """Answers the planner's tasks of a workflow, and the steps that ask a person."""
    request = task.plan_request
    if request is None:
        return NOTHING_DONE if NOTHING in task.allowed_tools else _approval(task)
    if request.synthesise:
        return "\n\n".join(item.text for item in task.context)
    if request.align:
        return Answer(json.dumps({"aligned": True}), publish=False)  # a workflow is followed as it is
    workflow, arguments = workflow_in(task.proto.input)
    if request.faults:
        faults = "; ".join(request.faults[:5])
        raise FailedPrecondition(f"workflow {workflow.reference} cannot be executed by this mesh: {faults}")
    if request.reason:
        raise PlanFailed(f"workflow {workflow.reference}: {_failure(request.proto.previous) or request.reason}")
    results = results_in(request.proto.previous)
    known = await expand_on_thread(workflow, arguments, results, max_steps=_max_steps(request))
    steps = known.subtasks or (SubTask("nothing-to-do", NOTHING_DONE, tool_name=NOTHING, role=ROLE),)
    subtasks = [_to_json(subtask) for subtask in steps]
    context = {CONTEXT_KEY: workflow.reference}
    plan = json.dumps({"goal": task.text, "context": context, "subtasks": subtasks}, ensure_ascii=False)
    return Answer(plan, publish=False)  # of no use to other roles


def results_in(plan: plan_pb2.Plan) -> dict[str, StepResult]:
    """Returns the results of the steps of a plan that have ended."""
    found: dict[str, StepResult] = {}
    for step in plan.steps:
        if step.state == common_pb2.TASK_STATE_COMPLETED:
            found[step.step_id] = _result_of(step)
        elif step.state in (common_pb2.TASK_STATE_FAILED, common_pb2.TASK_STATE_REJECTED):
            found[step.step_id] = StepResult(error=step.failure.message or "it failed")
    return found


def _result_of(step: plan_pb2.PlanStep) -> StepResult:
    """The result of a step; of an exact one with its type, if its agent says it: others have texts for everything."""
    for part in step.result if step.exact else ():
        if part.data_json:
            return StepResult(json.loads(part.data_json), exact=True)
        if part.media_type == TEXT_TYPE:
            return StepResult(part.text, exact=True)
    return StepResult(text_of(step.result))


def _approval(task: TaskContext) -> str | Question:
    if APPROVE not in task.allowed_tools:
        raise InvalidArgument(f"the role {ROLE} plans, and does no step but approvals")
    question = approval_question({"question": task.text, **json.loads(task.tool_args_json or "{}")})
    if not task.answers:
        return to_question(question)
    return approved(question, to_answer(next(iter(task.answers.values()))))


def _max_steps(request: PlanRequest) -> int:
    """The steps that a plan may have: those that have ended, and the further ones that the request allows."""
    final = (
        common_pb2.TASK_STATE_COMPLETED,
        common_pb2.TASK_STATE_FAILED,
        common_pb2.TASK_STATE_REJECTED,
        common_pb2.TASK_STATE_CANCELED,
    )
    return request.max_steps + sum(step.state in final for step in request.proto.previous.steps)


def _failure(plan: plan_pb2.Plan) -> str:
    failed = [step for step in plan.steps if step.critical and step.HasField("failure")]
    return "; ".join(f"step {step.step_id} failed: {step.failure.message}" for step in failed[:5])


def _to_json(subtask: SubTask) -> dict[str, Any]:
    """A subtask as a planner replies it, without empty fields."""
    return {name: value for name in _FIELDS if (value := getattr(subtask, name))}
