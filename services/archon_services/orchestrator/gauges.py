"""The gauges of an orchestrator: its runs, roles, outbox, registry watch and lease, read when metrics are collected.

Collecting has a thread of its own. It reads counts that the event loop keeps, and copies of its collections.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from archon.telemetry import metrics
from archon.telemetry.metrics import Labels, Metric, Recorder, Source
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.ports import Clock
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.sessions import SessionPool
from archon_services.orchestrator.shared_memory.outbox import OutboxPublisher

Values = Iterable[tuple[Labels, float]]


def observe(
    recorder: Recorder,
    *,
    runs: Runs,
    pool: SessionPool,
    watch: RegistryWatch,
    ownership: Ownership,
    outbox: OutboxPublisher | None,
    clock: Clock,
) -> ExitStack:
    """Has the gauges read until the returned stack is closed. `outbox` is None without a shared memory."""

    def lease() -> Values:
        remaining = ownership.lease_remaining
        return [] if remaining is None else [((), remaining)]

    def states() -> Values:
        census = runs.census()
        return [(("running",), census.running), (("paused",), census.paused)]

    sources: dict[Metric, Source] = {
        metrics.RUNS: states,
        metrics.SCHEDULER_INPUTS: lambda: [((), runs.census().inputs)],
        metrics.SCHEDULER_READY: lambda: [((), runs.ready)],
        metrics.ROLE_INSTANCES: lambda: _instances(pool),
        metrics.ROLE_SLOTS: lambda: _slots(pool),
        metrics.TASKS_WAITING: lambda: [((role,), number) for role, number in pool.waiting_tasks().items()],
        metrics.WATCH_LAG: lambda: [((), watch.lag)],
        metrics.NEWER_RUNS: lambda: [((), ownership.takeover.newer_runs)],
        metrics.OWNER: lambda: [((), float(ownership.may_send()))],
        metrics.LEASE: lease,
    }
    if outbox is not None:
        publisher = outbox
        sources[metrics.OUTBOX_ROWS] = lambda: [((), publisher.pending)]
        sources[metrics.OUTBOX_AGE] = lambda: [((), publisher.age(clock.now()))]
    if runs.quotas is not None:
        usage = runs.quotas
        sources[metrics.QUOTA_USE] = lambda: [((tenant, quota), part) for tenant, quota, part in usage.shares()]
    stack = ExitStack()
    for metric, source in sources.items():
        stack.callback(recorder.observe(metric, source))
    return stack


def _instances(pool: SessionPool) -> Values:
    for role, census in pool.census().items():
        yield (role, "connected"), census.connected
        yield (role, "draining"), census.draining
        yield (role, "unreachable"), census.unreachable


def _slots(pool: SessionPool) -> Values:
    for role, census in pool.census().items():
        yield (role, "used"), census.used
        yield (role, "free"), census.free
