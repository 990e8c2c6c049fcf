"""The comparison that `archon demo` prints."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.commands.demo import comparison


def test_comparison_counts_tasks_delegations_and_model_calls() -> None:
    pipeline, agent = run_pb2.Run(), run_pb2.Run()
    for role in ("cook", "waiter"):
        pipeline.tasks.add(role=role)
    agent.tasks.add(task_id="t1", role="lead")
    agent.tasks.add(task_id="t2", role="cook", parent_task_id="t1")
    pipeline.usage.model_calls, agent.usage.model_calls = 2, 3
    assert comparison(pipeline, agent) == (
        "Pipeline: 2 tasks in dependency order, 2 model calls.\nAgent: lead made 1 delegation (cook), 3 model calls."
    )
