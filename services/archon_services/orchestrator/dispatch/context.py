"""The context of a dispatch as agents receive it: the answers that the dispatch recorded, and newer ones."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds
from archon_mesh.engine import RunState
from archon_mesh.engine.types import ContextRef, Submission


def write_context_item(run: RunState, context: ContextRef, item: common_pb2.ContextItem) -> None:
    """Writes the answer or item that a reference names; if a later item of the same task has replaced it, that one."""
    assert run.submission is not None
    if not context.seq:
        item.CopyFrom(_session_item(run.submission, context))
        return
    # The policy of an item follows from its content, whatever else its edge would let through.
    item.policy = common_pb2.PROPAGATION_POLICY_FINAL_RESPONSE_ONLY
    ref = item.ref
    ref.scope, ref.role, ref.run_id = run.submission.scope, context.role, run.submission.run_id
    ref.seq = context.seq
    version = _write_answer(run, context, item) or _write_published(run, context, item)
    if version > 0:
        ref.version = version


def update_memory(run: RunState, context: ContextRef) -> session_pb2.OrchestratorFrame:
    """The frame that tells an attempt of an answer or item that is newer than its context."""
    frame = session_pb2.OrchestratorFrame()
    write_context_item(run, context, frame.update_memory.context.add())
    return frame


def _write_answer(run: RunState, context: ContextRef, item: common_pb2.ContextItem) -> int:
    """Writes the result of event `context.seq` and returns its version in the shared memory, -1 if it has none; 0 if
    the event is not a result."""
    task = run.tasks[run.answer_tasks[context.seq]]
    if task.result_seq != context.seq:
        return 0
    set_seconds(item.publish_time, task.end_time)
    if task.step_id:
        item.step_id = task.step_id
    result = task.payload
    if isinstance(result, agent_pb2.TaskResult):
        item.parts.MergeFrom(result.output)
        if result.metadata:
            item.metadata.update(result.metadata)
    return task.memory_version or -1


def _write_published(run: RunState, context: ContextRef, item: common_pb2.ContextItem) -> int:
    """Writes the item of event `context.seq`, or of the next event of its task that has replaced it; returns its
    version as `_write_answer` does."""
    task = run.tasks[run.answer_tasks[context.seq]]
    published = min((item for item in task.items if item.seq >= context.seq), key=lambda entry: entry.seq)
    payload = published.item.payload
    item.policy = common_pb2.PropagationPolicy.ValueType(published.item.policy)
    item.ref.seq = published.seq
    set_seconds(item.publish_time, published.time)
    if isinstance(payload, run_pb2.ItemPublished):
        item.parts.MergeFrom(payload.parts)
        item.metadata.update(payload.metadata)
    return published.version or -1


def _session_item(submission: Submission, context: ContextRef) -> common_pb2.ContextItem:
    """An earlier answer of the session, as it was recorded when the run was submitted."""
    answers = submission.goal.session_context if isinstance(submission.goal, run_pb2.Submitted) else ()
    wanted = context.role, context.version
    return next(answer.item for answer in answers if (answer.item.ref.role, answer.item.ref.version) == wanted)
