"""Decides about the reply of a planner: whether it is a plan that can be executed, refused once, repaired then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.retries import RECOVERY, Kind, recovery_exhausted
from archon_mesh.engine.decide.step_roles import assigned, binding_faults
from archon_mesh.engine.plan import (
    MAX_PLAN_SUBTASKS,
    EmptyPlan,
    InvalidPlan,
    ReplanCounters,
    SubTask,
    carry_over,
    expanded,
    expansion_faults,
    find_faults,
    repair,
    replan_reason,
)
from archon_mesh.engine.plan import Plan as Order
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan.replan import is_same_work
from archon_mesh.engine.plan_progress import steps_of
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import PLAN_FAILED, Failure, PlanTarget

MAX_FAULTS = 50
"""Faults of a reply that its refusal names."""

MAX_DEPENDENCIES = 20_000
"""Dependencies of all steps of a plan together."""


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    """A plan whose steps have their roles, with the completed steps of the plan before; `changes` are its repairs.
    `reason` says why it replaces a plan that no longer leads to the goal."""

    plan: Plan
    changes: tuple[str, ...] = ()
    reason: str = ""


def judge(run: RunState, task: Task, reply: inp.PlanIn) -> AcceptedPlan | Failure:
    """Accepts the plan of a reply. A Failure that may be retried refuses it: its violations are the faults. The second
    time faults are repaired; if they cannot be, the Failure is final."""
    state = run.plan
    if state is not None and state.rules.are_checked and reply.plan is not None:
        try:
            return _executable(run, reply.plan, reply.changes)
        except EmptyPlan as error:
            return _refusal((("", error.message),), RetryAdvice.NEVER)
    faults = reply.faults or _faults(run, reply.plan)
    if not faults and reply.plan is not None:
        return _accepted(run, _merged(run, reply.plan), reply.changes)
    if _may_refuse(run, task):
        return _refusal(faults, RetryAdvice.LATER, _failure_kind(run, reply))
    if reply.plan is None:
        return _refusal(faults, RetryAdvice.NEVER)
    try:
        accepted = repaired(run, reply.plan)
        return replace(accepted, changes=(*reply.changes, *accepted.changes))
    except EmptyPlan as error:
        return _refusal((("", error.message),), RetryAdvice.NEVER)


def judge_alignment(run: RunState, reply: inp.PlanIn) -> AcceptedPlan | None:
    """Accepts the plan that a planner replied when it was asked whether the plan in force still leads to the goal. None
    if that plan stays: it is aligned, the reply cannot be executed, or it leaves the same to be done."""
    state = run.plan
    assert state is not None
    if reply.plan is None:
        return None
    try:
        if state.rules.are_checked:
            accepted = _executable(run, reply.plan, ())
        elif _faults(run, reply.plan):
            accepted = repaired(run, reply.plan)
        else:
            accepted = _accepted(run, _merged(run, reply.plan), ())
    except EmptyPlan:
        return None
    in_force = Plan("", "", state.goal, tuple(steps_of(run)), state.context)
    if all(step.has_ended for step in accepted.plan.subtasks) or is_same_work(in_force, accepted.plan):
        return None
    reason = replan_reason(ReplanCounters(misalignment=reply.reason or "its planner gave no reason")) or ""
    return replace(accepted, changes=(*reply.changes, *accepted.changes), reason=reason)


def repaired(run: RunState, plan: Plan) -> AcceptedPlan:
    """Repairs a plan by fixed rules. Raises EmptyPlan."""
    tools, roles, capabilities = _names(plan_targets(run))
    fixed, changes = repair(
        _merged(run, plan), tools=tools, roles=roles, capabilities=capabilities, max_subtasks=max_steps(run)
    )
    return _accepted(run, _with_few_dependencies(fixed), changes)


def plan_faults(run: RunState, plan: Plan, *, limit: int = MAX_PLAN_SUBTASKS) -> tuple[tuple[str, str], ...]:
    """Returns the faults of a plan of at most `limit` steps that have not ended, each with its step (empty: the
    whole)."""
    targets = plan_targets(run)
    tools, roles, capabilities = _names(targets)
    found = find_faults(plan, tools=tools, roles=roles, capabilities=capabilities, max_subtasks=limit)
    faults = [(fault.subtask_id, fault.message) for fault in found]
    if len(plan.subtasks) > MAX_PLAN_SUBTASKS:
        faults.append(("", f"the plan has {len(plan.subtasks):,} subtasks; at most {MAX_PLAN_SUBTASKS:,} are allowed"))
    if (count := _dependencies(plan)) > MAX_DEPENDENCIES:
        faults.append(("", f"the plan has {count:,} dependencies; at most {MAX_DEPENDENCIES:,} are allowed"))
    return (*faults, *binding_faults(plan, targets))


def faults_of(run: RunState, plan: Plan) -> tuple[tuple[str, str], ...]:
    """Returns the faults of a plan that will replace the one in force, whose completed steps it gets. If plans are
    checked before they come, only faults that no repair mends are left."""
    if run.plan is not None and run.plan.rules.are_checked:
        try:
            Order.of(_executable(run, plan, ()).plan)
        except InvalidPlan as error:
            return (("", error.message),)
        return ()
    return plan_faults(run, _merged(run, plan), limit=max_steps(run))


def _failure_kind(run: RunState, reply: inp.PlanIn) -> str:
    """Returns the kind of failure that the first fault of a plan is; empty for a reply that is no plan."""
    if reply.faults or reply.plan is None:
        return ""
    plan = _merged(run, reply.plan)
    tools, roles, capabilities = _names(plan_targets(run))
    found = find_faults(plan, tools=tools, roles=roles, capabilities=capabilities, max_subtasks=max_steps(run))
    return found[0].kind.failure_kind if found else ""


def reaccepted(run: RunState, plan: Plan, changes: tuple[str, ...]) -> AcceptedPlan | Failure:
    """Accepts a plan that was accepted before and has waited since: steps may have completed meanwhile. `changes` are
    its repairs so far."""
    if run.plan is not None and run.plan.rules.are_checked:
        try:
            return _executable(run, plan, changes)
        except EmptyPlan as error:
            return _refusal((("", error.message),), RetryAdvice.NEVER)
    merged = _merged(run, plan)
    if not plan_faults(run, merged):
        return _accepted(run, merged, changes)
    try:
        again = repaired(run, plan)
    except EmptyPlan as error:
        return _refusal((("", error.message),), RetryAdvice.NEVER)
    return AcceptedPlan(again.plan, (*changes, *again.changes))


def max_steps(run: RunState) -> int:
    """Returns how many steps a plan of the planner may have, without those that have ended."""
    ended = sum(step.has_ended for step in steps_of(run))
    return max(1, MAX_PLAN_SUBTASKS - ended)


def plan_targets(run: RunState) -> tuple[PlanTarget, ...]:
    """Returns the roles that steps may go to."""
    assert run.submission is not None
    return tuple(target for target in run.submission.targets if isinstance(target, PlanTarget))


def _faults(run: RunState, plan: Plan | None) -> tuple[tuple[str, str], ...]:
    if plan is None:
        return (("", "the reply is no plan"),)
    merged = _merged(run, plan)
    faults = plan_faults(run, merged, limit=max_steps(run))
    if run.plan is not None and run.plan.expanding:
        found = expansion_faults(merged, run.plan.expanding)
        return (*faults, *((fault.subtask_id, fault.message) for fault in found))
    return faults


def _executable(run: RunState, plan: Plan, changes: tuple[str, ...]) -> AcceptedPlan:
    """Accepts a plan that was checked before it came. It is repaired if steps depend on others that are gone, or
    on each other. Raises EmptyPlan."""
    merged = _merged(run, plan)
    try:
        Order.of(merged)
    except InvalidPlan:
        merged, repairs = repair(merged, tools=None, roles=None, capabilities=None, max_subtasks=MAX_PLAN_SUBTASKS)
        changes = (*changes, *repairs)
    return AcceptedPlan(merged, changes)


def _accepted(run: RunState, merged: Plan, changes: tuple[str, ...]) -> AcceptedPlan:
    """Accepts a merged plan that has no faults, or none any more. A step may repeat a completed one as the planner
    wrote that one, before repairs and without a role: only now do they look alike, and it is left out."""
    plan = assigned(merged, plan_targets(run))
    if run.plan is not None and not run.plan.expanding:
        plan = _merged(run, replace(plan, subtasks=tuple(step for step in plan.subtasks if not step.has_ended)))
    return AcceptedPlan(plan, changes)


def _merged(run: RunState, plan: Plan) -> Plan:
    """The plan with the completed steps of the one before; if it is expanded, with all that have begun."""
    state = run.plan
    assert state is not None
    if not state.steps:
        return plan
    old = Plan(plan.id, plan.original_query, state.goal, tuple(steps_of(run)), state.context)
    return expanded(old, plan, state.expanding) if state.expanding else carry_over(old, plan)


def _names(targets: tuple[PlanTarget, ...]) -> tuple[set[str], set[str], set[str]]:
    tools = {tool for target in targets for tool in target.tools}
    capabilities = {capability for target in targets for capability in target.capabilities}
    return tools, {target.role for target in targets}, capabilities


def _dependencies(plan: Plan) -> int:
    return sum(len(step.dependencies) for step in plan.subtasks)


def _with_few_dependencies(plan: Plan) -> Plan:
    """Drops the last dependencies of a plan that has too many."""
    if _dependencies(plan) <= MAX_DEPENDENCIES:
        return plan
    most = MAX_DEPENDENCIES // len(plan.subtasks)

    def cut(step: SubTask) -> SubTask:
        return step if step.has_ended else replace(step, dependencies=step.dependencies[:most])

    return replace(plan, subtasks=tuple(map(cut, plan.subtasks)))


def _may_refuse(run: RunState, task: Task) -> bool:
    """A reply is refused once, and if its task may be tried again at all."""
    tries_left = task.retries + 1 < RECOVERY[Kind.TRANSIENT].tries
    return not task.faults and tries_left and recovery_exhausted(run.recovered) is None


def _refusal(faults: tuple[tuple[str, str], ...], retry: RetryAdvice, kind: str = "") -> Failure:
    first = faults[0][1] if faults else "the reply is no plan"
    message = f"the planner's reply cannot be executed: {first}"
    violations = tuple((step or "plan", description) for step, description in faults[:MAX_FAULTS])
    return Failure("FAILED_PRECONDITION", PLAN_FAILED, message, kind=kind, retry=int(retry), violations=violations)
