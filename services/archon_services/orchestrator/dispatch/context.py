"""The context of a dispatch as agents receive it: the answers that the dispatch recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import timestamp
from archon_mesh.core.run import RunState, Task
from archon_mesh.core.run.types import ContextRef, Submission


def context_items(run: RunState, submission: Submission, task: Task) -> Iterator[common_pb2.ContextItem]:
    """One item per reference of the task's context, in the same order."""
    policies = {edge.upstream: edge.policy for edge in submission.edges if edge.downstream == task.role}
    for ref in task.context:
        if not ref.seq:
            yield _session_item(submission, ref)
            continue
        upstream = next(other for other in run.tasks.values() if other.result_seq == ref.seq)
        memory_ref = common_pb2.MemoryRef(
            scope=submission.scope,
            role=ref.role,
            run_id=submission.run_id,
            seq=ref.seq,
            version=upstream.memory_version,
        )
        policy = cast(common_pb2.PropagationPolicy.ValueType, policies.get(ref.role, 1))
        result = upstream.payload
        parts, metadata = (result.output, result.metadata) if isinstance(result, agent_pb2.TaskResult) else ((), {})
        yield common_pb2.ContextItem(
            ref=memory_ref, policy=policy, publish_time=timestamp(upstream.end_time), parts=parts, metadata=metadata
        )


def _session_item(submission: Submission, ref: ContextRef) -> common_pb2.ContextItem:
    """An earlier answer of the session, as it was recorded when the run was submitted."""
    answers = submission.goal.session_context if isinstance(submission.goal, run_pb2.Submitted) else ()
    return next(
        answer.item for answer in answers if (answer.item.ref.role, answer.item.ref.version) == (ref.role, ref.version)
    )
