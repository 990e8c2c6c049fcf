"""The context of a dispatch as agents receive it: the answers that the dispatch recorded."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds
from archon_mesh.core.run import RunState, Task
from archon_mesh.core.run.types import ContextRef, Submission


def write_context(run: RunState, submission: Submission, task: Task, target: agent_pb2.AssignTask) -> None:
    """Adds one item per reference of the task's context, in the same order."""
    for context in task.context:
        if not context.seq:
            target.context.append(_session_item(submission, context))
            continue
        upstream = _answer(run, context)
        # The policy of an item is that of its content, whatever else its edge would let through.
        item = target.context.add(policy=common_pb2.PROPAGATION_POLICY_FINAL_RESPONSE_ONLY)
        ref = item.ref
        ref.scope, ref.role, ref.run_id, ref.seq = submission.scope, context.role, submission.run_id, context.seq
        if upstream.memory_version:
            ref.version = upstream.memory_version
        set_seconds(item.publish_time, upstream.end_time)
        result = upstream.payload
        if isinstance(result, agent_pb2.TaskResult):
            item.parts.MergeFrom(result.output)
            if result.metadata:
                item.metadata.update(result.metadata)


def _answer(run: RunState, context: ContextRef) -> Task:
    """The task whose result is event `context.seq`."""
    task = run.tasks.get(run.by_role.get(context.role, ""))
    if task is not None and task.result_seq == context.seq:
        return task
    return next(other for other in run.tasks.values() if other.result_seq == context.seq)


def _session_item(submission: Submission, context: ContextRef) -> common_pb2.ContextItem:
    """An earlier answer of the session, as it was recorded when the run was submitted."""
    answers = submission.goal.session_context if isinstance(submission.goal, run_pb2.Submitted) else ()
    wanted = context.role, context.version
    return next(answer.item for answer in answers if (answer.item.ref.role, answer.item.ref.version) == wanted)
