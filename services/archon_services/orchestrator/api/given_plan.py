"""The plan that comes with a submit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import ArchonError, FieldViolation, InvalidArgument
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.decide.plan import without_statuses
from archon_mesh.engine.decide.plan_reply import plan_faults, plan_targets
from archon_mesh.engine.decide.step_roles import assigned
from archon_mesh.engine.plan_state import sinks_of
from archon_mesh.engine.types import Submission
from archon_services.orchestrator.dispatch.step import goal_text

MAX_NAMED: Final = 10
"""Steps, and faults, that an error names."""


def has_planner(request: pb.SubmitRunRequest) -> bool:
    """Whether a role plans: always, unless the plan comes with the request and no planner is named."""
    return bool(request.planner or not request.plan_json)


def given_plan(submission: Submission, plan_json: str) -> inp.ReusedPlan:
    """Returns the plan that a run begins with. Raises InvalidArgument if the text is no plan, or a plan with faults; or
    if a run without a planner would need one."""
    from archon_mesh.planning import parse_plan  # only runs with a plan need it

    run = RunState()
    for event in decide(run, inp.Submit(submission, "", 1), 0.0):
        apply(run, event, 0.0)
    try:
        plan = parse_plan(plan_json, goal_text(run), "")
    except ArchonError as error:
        raise _invalid([("", error.message)]) from None
    faults = plan_faults(run, plan)
    if not faults and submission.plan_rules is not None and not submission.plan_rules.has_planner:
        faults = tuple((step.id, "only a planner can expand it") for step in plan.subtasks if step.expand)
        if len(sinks := sinks_of(plan)) > 1:
            several = ", ".join(sinks[:MAX_NAMED])
            faults = (*faults, ("", f"only a planner can combine the results of several last steps: {several}"))
    if faults:
        raise _invalid(faults)
    answer = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text=plan_json)])
    return inp.ReusedPlan(without_statuses(assigned(plan, plan_targets(run))), (), answer)


def _invalid(faults: Sequence[tuple[str, str]]) -> InvalidArgument:
    texts = [f"step {step!r}: {text}" if step else text for step, text in faults[:MAX_NAMED]]
    violations = [FieldViolation("plan_json", text) for text in texts]
    return InvalidArgument(f"plan_json: {'; '.join(texts)}", field_violations=violations)
