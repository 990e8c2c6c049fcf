"""Chooses the strategy of a goal: one role answers it, or a planner splits it into steps for several."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FailedPrecondition, UnknownRole
from archon.registry import Registration
from archon_mesh.core.run.decide.step_roles import closest_role
from archon_services.orchestrator.convert.plan import plan_target, target_from_proto
from archon_services.orchestrator.roles.selection import PLANNER


def choose_strategy(
    goal: str, instances: Mapping[str, Registration], roles: Collection[str], planner: str
) -> pb.PlanRunResponse:
    """Returns strategy, roles and reason. `instances` has one of each role; `roles` are those that may take part, all
    if empty.

    A goal of one step goes to the role whose description shares most words with it, or else to the coordinator; one of
    several steps to the planner. Raises UnknownRole if a role has no instance, FailedPrecondition if there is none.
    """
    from archon_mesh.planning.decide import TaskMode, decide  # only this call needs it

    planner = planner or PLANNER
    for role in sorted(roles):
        if role not in instances:
            raise UnknownRole(f"no instance of the role {role!r}", metadata={"role": role})
    workers = {
        role: instance
        for role, instance in instances.items()
        if role != planner and not instance.planner and (not roles or role in roles)
    }
    if not workers:
        raise FailedPrecondition("no role that could answer has an instance")
    tools = {tool.name: tool.description for instance in workers.values() for tool in instance.tools}
    decision = decide(goal, sorted(workers), tools)
    if decision.mode is not TaskMode.DIRECT and planner in instances:
        return pb.PlanRunResponse(strategy=run_pb2.STRATEGY_PLAN, roles=sorted(roles), reason=decision.reason)
    role, why = _answering(goal, workers)
    reason = decision.reason
    if decision.mode is not TaskMode.DIRECT:
        reason = f"{reason}, but no instance of {planner!r} is there to plan"
    return pb.PlanRunResponse(strategy=run_pb2.STRATEGY_AGENT, roles=[role], reason=f"{reason}, {why}")


def _answering(goal: str, workers: Mapping[str, Registration]) -> tuple[str, str]:
    """Returns the role that answers alone, and why."""
    alone = [workers[role] for role in sorted(workers) if not workers[role].coordinator]
    targets = [target_from_proto(plan_target(instance)) for instance in alone]
    if role := closest_role(goal, targets):
        return role, f"which {role} is for"
    coordinators = [role for role in sorted(workers) if workers[role].coordinator]
    role = coordinators[0] if coordinators else sorted(workers)[0]
    return role, f"and no role is closest to it: {role} answers"
