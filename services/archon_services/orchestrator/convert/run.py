"""Events of a whole run. Fields of a submission that the core does not read (goal, metadata, trace) stay in its
message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds, to_seconds
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import (
    NO_ORIGIN,
    WITHOUT_PLANNER,
    ClockOrigin,
    Edge,
    PlanTarget,
    Requirement,
    SessionContextRef,
    Submission,
    Target,
)
from archon_services.orchestrator.convert.budget import budget_from_proto
from archon_services.orchestrator.convert.failures import (
    failure_to_proto,
    optional_failure,
    reason_from_proto,
    reason_to_proto,
)
from archon_services.orchestrator.convert.people import rule_from_proto, write_rule
from archon_services.orchestrator.convert.plan import target_from_proto
from archon_services.orchestrator.convert.task import state_from_proto, state_to_proto

STRATEGIES: Final = {
    "pipeline": run_pb2.STRATEGY_PIPELINE,
    "agent": run_pb2.STRATEGY_AGENT,
    "plan": run_pb2.STRATEGY_PLAN,
}
_STRATEGY_OF: Final = {number: name for name, number in STRATEGIES.items()}


def session_context_from_proto(items: Iterable[run_pb2.SessionContext]) -> tuple[SessionContextRef, ...]:
    """Converts the engine's part of the session's earlier answers; their content stays in the submission."""
    return tuple(SessionContextRef(item.item.ref.role, item.item.ref.version, tuple(item.readers)) for item in items)


def read_submitted(event: run_pb2.RunEvent) -> ev.Event:
    source = event.submitted
    submission = Submission(
        run_id=event.run_id,
        tenant=source.tenant,
        request_id=source.request_id,
        session_id=source.session_id,
        strategy=_STRATEGY_OF.get(source.strategy, "pipeline"),
        roles=tuple(source.roles),
        edges=tuple(Edge(edge.upstream, edge.downstream, int(edge.policy)) for edge in source.edges),
        timeout=to_seconds(source.timeout),
        goal=source,
        requirements=tuple(
            Requirement(requirement.role, requirement.capability, requirement.version) for requirement in source.wants
        ),
        all_ancestors=tuple(source.all_ancestors),
        targets=_targets_from_proto(source),
        budget=budget_from_proto(source.budget),
        session_context=session_context_from_proto(source.session_context),
        pause_timeout=to_seconds(source.pause_timeout),
        parent_run_id=source.parent_run_id,
        rules=tuple(map(rule_from_proto, source.rules)),
        check_alignment=source.check_alignment,
        plan_rules=WITHOUT_PLANNER if source.without_planner else None,
    )
    return ev.Submitted(submission, source.owner, source.epoch, _read_origin(source))


def _targets_from_proto(source: run_pb2.Submitted) -> tuple[Target, ...]:
    if source.plan_targets:
        return tuple(target_from_proto(target) for target in source.plan_targets)
    return tuple(Target(target.role, target.description, target.coordinator) for target in source.targets)


def write_submitted(out: run_pb2.RunEvent, event: ev.Submitted) -> None:
    source = event.submission
    if isinstance(source.goal, run_pb2.Submitted):
        out.submitted.CopyFrom(source.goal)
    target = out.submitted
    target.request_id, target.session_id, target.tenant = source.request_id, source.session_id, source.tenant
    target.strategy, target.owner, target.epoch = STRATEGIES[source.strategy], event.owner, event.epoch
    if target.roles:  # the goal of a run that was read back holds all of them
        del target.roles[:], target.edges[:], target.wants[:], target.all_ancestors[:], target.targets[:]
    target.roles.extend(source.roles)
    for edge in source.edges:
        target.edges.add(upstream=edge.upstream, downstream=edge.downstream, policy=edge.policy)
    for requirement in source.requirements:
        target.wants.add(role=requirement.role, capability=requirement.capability, version=requirement.version)
    target.all_ancestors.extend(source.all_ancestors)
    for delegate in source.targets:
        if not isinstance(delegate, PlanTarget):  # those are in the goal's message, with all that a planner sees
            target.targets.add(role=delegate.role, description=delegate.description, coordinator=delegate.coordinator)
    if source.budget.limited:
        budget = target.budget
        budget.max_tokens, budget.max_cost_micro_usd = source.budget.tokens, source.budget.cost
        budget.max_depth, budget.max_model_calls = source.budget.depth, source.budget.calls
    set_seconds(target.timeout, source.timeout)
    if source.pause_timeout:
        set_seconds(target.pause_timeout, source.pause_timeout)
    target.parent_run_id, target.check_alignment = source.parent_run_id, source.check_alignment
    target.without_planner = source.plan_rules is not None and not source.plan_rules.has_planner
    del target.rules[:]
    for rule in source.rules:
        write_rule(rule, target.rules.add())
    _write_origin(target, event.origin)


def read_claimed(event: run_pb2.RunEvent) -> ev.Event:
    return ev.Claimed(event.claimed.owner, event.claimed.epoch, _read_origin(event.claimed))


def write_claimed(out: run_pb2.RunEvent, event: ev.Claimed) -> None:
    out.claimed.owner, out.claimed.epoch = event.owner, event.epoch
    _write_origin(out.claimed, event.origin)


def _read_origin(source: run_pb2.Submitted | run_pb2.Claimed) -> ClockOrigin:
    if not source.HasField("clock_origin"):
        return NO_ORIGIN
    return ClockOrigin(source.clock_origin.boot_id, to_seconds(source.clock_origin.time))


def _write_origin(target: run_pb2.Submitted | run_pb2.Claimed, origin: ClockOrigin) -> None:
    if origin.boot_id:
        target.clock_origin.boot_id = origin.boot_id
        set_seconds(target.clock_origin.time, origin.time)
    else:
        target.ClearField("clock_origin")


def read_cancel_requested(event: run_pb2.RunEvent) -> ev.Event:
    source = event.cancel_requested
    return ev.CancelRequested(source.identity, source.reason, reason_from_proto(source.cause), optional_failure(source))


def write_cancel_requested(out: run_pb2.RunEvent, event: ev.CancelRequested) -> None:
    target = out.cancel_requested
    target.identity, target.reason = event.identity, event.reason
    target.cause = reason_to_proto(event.cause)
    if event.failure is not None:
        target.failure.CopyFrom(failure_to_proto(event.failure))


def read_run_state(event: run_pb2.RunEvent) -> ev.Event:
    source = event.run_state
    failure = optional_failure(source)
    return ev.RunEnded(state_from_proto(source.state), failure, tuple(source.answer_seqs))


def write_run_state(out: run_pb2.RunEvent, event: ev.RunEnded) -> None:
    out.run_state.state = state_to_proto(event.state)
    out.run_state.answer_seqs.extend(event.answer_seqs)
    if event.failure is not None:
        out.run_state.failure.CopyFrom(failure_to_proto(event.failure))
