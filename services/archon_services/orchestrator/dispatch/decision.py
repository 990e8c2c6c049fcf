"""Applies the rule of a step that chooses from the results of others; from journaled facts alone."""

from __future__ import annotations

from collections.abc import Callable

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.wire import text_of
from archon_mesh.engine import RunState, Task
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.decision import awaits_decision
from archon_mesh.engine.decisions import RECORD, Candidate, Resolution, resolve
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.convert.plan import output_of

WeightOf = Callable[[str, str], float]


def decision_of(
    run: RunState, task: Task, weight_of: WeightOf = lambda role, instance_id: 1.0
) -> inp.DecisionIn | None:
    """Returns the outcome of the rule of a ready task's step; None if the step has none, or was left to its role.
    `weight_of` returns the weight of an instance of a role by its record: the outcome, which is journaled, has it."""
    if not task.step_id or not awaits_decision(run, task.task_id):
        return None
    assert run.plan is not None
    step = run.plan.steps[task.step_id]
    upstream = [run.tasks[id_] for id_ in task.predecessors]
    completed = {each.step_id: each for each in upstream if each.state is TaskState.COMPLETED}
    candidates = [Candidate(id_, text_of(output_of(each)), each.role) for id_, each in completed.items()]
    absent = [Candidate(each.step_id, "", each.role) for each in upstream if each.step_id not in completed]
    arguments = dict(step.tool_args)
    if arguments.get("weights") == RECORD:
        arguments["weights"] = {each.step_id: weight_of(each.role, each.instance_id) for each in upstream}
    resolution = resolve(step.decision, arguments, candidates, absent)
    result = agent_pb2.TaskResult(resolution=resolution_to_proto(resolution), no_publish=True)
    if resolution.winner:
        result.output.extend(output_of(completed[resolution.winner]))
    elif resolution.is_decided:
        result.output.add(text=resolution.reason)
    is_decided = resolution.is_decided
    result.state = common_pb2.TASK_STATE_COMPLETED if is_decided else common_pb2.TASK_STATE_FAILED
    return inp.DecisionIn(task.task_id, is_decided, resolution.reason, result, resolution.winner)


def resolution_to_proto(resolution: Resolution) -> plan_pb2.Resolution:
    """Converts a resolution."""
    made = plan_pb2.Resolution(
        rule=resolution.rule,
        winner_step_id=resolution.winner,
        reason=resolution.reason,
        conflict=resolution.conflict,
    )
    for vote in resolution.votes:
        out = made.votes.add(step_id=vote.step_id, role=vote.role, weight=vote.weight, support=vote.support)
        if vote.bid is not None:
            out.bid.cost_micro_usd, out.bid.seconds = vote.bid.cost_micro_usd, vote.bid.seconds
            out.bid.quality = vote.bid.quality
    return made
