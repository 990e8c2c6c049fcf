"""Chooses the strategy of a goal: one role answers it, or a planner splits it into steps for several."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FailedPrecondition, UnknownRole
from archon.registry import Registration
from archon_services.orchestrator.roles.role_index import closest
from archon_services.orchestrator.roles.selection import PLANNER

MAX_WORDS: Final = 3
"""Words of a goal that a reason names."""


def choose_strategy(
    goal: str, instances: Mapping[str, Registration], roles: Collection[str], planner: str
) -> pb.PlanRunResponse:
    """Returns strategy, roles and reason. `instances` has one of each role; `roles` are those that may take part, all
    if empty.

    A goal of one step goes to the role whose registration fits it best; if none shares a word with it, to the
    coordinator, or else to the planner; the only role there is answers in any case. One of several steps goes to the
    planner. Raises UnknownRole if a role has no instance, FailedPrecondition if there is none.
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
        return _plan(roles, decision.reason)
    reason = decision.reason
    if decision.mode is not TaskMode.DIRECT:
        reason = f"{reason}, but no instance of {planner!r} is there to plan"
    match = closest(goal, (instance for instance in workers.values() if not instance.coordinator))
    if match is not None:
        return _one_role(match.name, f"{reason}, and {match.name} fits it best ({', '.join(match.words[:MAX_WORDS])})")
    coordinators = [role for role in sorted(workers) if workers[role].coordinator]
    if not coordinators and planner in instances and len(workers) > 1:
        return _plan(roles, f"{reason}, no role has a word of it, and {planner} decides")
    role = coordinators[0] if coordinators else sorted(workers)[0]
    return _one_role(role, f"{reason}, and no role has a word of it: {role} answers")


def _plan(roles: Collection[str], reason: str) -> pb.PlanRunResponse:
    return pb.PlanRunResponse(strategy=run_pb2.STRATEGY_PLAN, roles=sorted(roles), reason=reason)


def _one_role(role: str, reason: str) -> pb.PlanRunResponse:
    return pb.PlanRunResponse(strategy=run_pb2.STRATEGY_AGENT, roles=[role], reason=reason)
