"""Why a task was dispatched to an instance."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine.types import ComparedInstance, InstanceChoice


def choice_from_proto(source: run_pb2.Placement) -> InstanceChoice:
    """Converts a stored placement."""
    candidates = tuple(_candidate_from_proto(candidate) for candidate in source.candidates)
    return InstanceChoice(source.reason, source.compared, candidates)


def _candidate_from_proto(source: run_pb2.PlacementCandidate) -> ComparedInstance:
    record = source.metrics
    return ComparedInstance(
        source.instance_id,
        source.load,
        source.factor,
        record.tasks,
        record.success_rate,
        record.mean_seconds,
        record.p95_seconds,
        record.mean_cost_micro_usd,
    )


def write_choice(choice: InstanceChoice, role: str, out: run_pb2.Placement) -> None:
    """Writes a choice among instances of a role into an empty message."""
    out.reason, out.compared = choice.reason, choice.compared
    for each in choice.candidates:
        candidate = out.candidates.add(instance_id=each.instance_id, load=each.load, factor=each.factor)
        if each.tasks:
            record = candidate.metrics
            record.role, record.instance_id, record.tasks = role, each.instance_id, each.tasks
            record.success_rate, record.mean_seconds = each.success_rate, each.mean_seconds
            record.p95_seconds, record.mean_cost_micro_usd = each.p95_seconds, each.mean_cost
