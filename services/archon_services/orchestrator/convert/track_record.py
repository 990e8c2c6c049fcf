"""Track records of roles and instances, as callers see them."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon_services.orchestrator.track_records.tally import Tally


def tally_to_proto(role: str, instance_id: str, tally: Tally) -> run_pb2.InstanceMetrics:
    """Converts the tally of an instance; of the role as a whole if `instance_id` is empty."""
    return run_pb2.InstanceMetrics(
        role=role,
        instance_id=instance_id,
        tasks=tally.tasks,
        success_rate=tally.success_rate,
        mean_seconds=tally.mean_seconds,
        p95_seconds=tally.p95_seconds,
        mean_cost_micro_usd=tally.mean_cost,
        bids=tally.bids,
        bids_kept_rate=tally.bids_kept_rate,
        conflicts=tally.conflicts,
        conflicts_won_rate=tally.conflicts_won_rate,
        ratings=max(0.0, tally.ratings),
        mean_stars=tally.mean_stars,
    )
