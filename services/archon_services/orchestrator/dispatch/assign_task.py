"""Builds the AssignTask frame of a dispatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.awareness import awareness_message
from archon_mesh.core.run import RunState, Task
from archon_mesh.core.run.decide.budget import limits
from archon_mesh.core.run.types import ContextRef, Submission
from archon_services.orchestrator.convert.write import amount_to_proto, stamp, state_to_proto, timestamp
from archon_services.orchestrator.dispatch.replies import remaining, result_of

MAX_RESUMED_BYTES = 1024 * 1024


def assign_task(run: RunState, task: Task, now: float, history: Sequence[bytes] = ()) -> agent_pb2.AssignTask:
    """The task with its context out of the run's journal: exactly what its dispatch recorded as given. `history` are
    the turns of the conversation's version that it names."""
    assert run.submission is not None
    said = run.submission.goal
    assigned = agent_pb2.AssignTask(idempotency_key=task.task_id)
    if isinstance(said, run_pb2.Submitted):
        if said.metadata:
            assigned.metadata.update(said.metadata)
        asked = task.payload_in if isinstance(task.payload_in, run_pb2.Delegated) else None
        assigned.input.MergeFrom(said.goal if asked is None else asked.input)
        if asked is not None and asked.HasField("trace"):
            assigned.trace.CopyFrom(asked.trace)
        elif said.HasField("trace"):
            assigned.trace.CopyFrom(said.trace)
    if any(limits(run, task)):
        amount_to_proto(task.reserved, assigned.budget)
    if run.submission.session_id:
        assigned.conversation_id = f"{run.submission.session_id}/{task.role}"
    if task.conversation_version is not None:
        assigned.conversation_version = task.conversation_version
        for turn in history:
            assigned.MergeFromString(turn)
    stamp(assigned.remaining, remaining(run, task, now))
    if task.context:
        assigned.context.extend(_context(run, run.submission, task))
    if task.parent:
        assigned.delegation_chain.extend(above.role for above in run.lineage(task)[:-1])
    if run.submission.targets:
        _tell_coordinator(run, task, assigned)
    if task.children or task.checkpoint is not None or task.inputs:
        _resume(run, task, assigned)
    return assigned


def _context(run: RunState, submission: Submission, task: Task) -> Iterator[common_pb2.ContextItem]:
    policies = {edge.upstream: edge.policy for edge in submission.edges if edge.downstream == task.role}
    for given in task.context:
        if not given.seq:
            yield _from_session(submission, given)
            continue
        upstream = next(one for one in run.tasks.values() if one.result_seq == given.seq)
        ref = common_pb2.MemoryRef(
            scope=submission.scope,
            role=given.role,
            run_id=submission.run_id,
            seq=given.seq,
            version=upstream.memory_version,
        )
        policy = cast(common_pb2.PropagationPolicy.ValueType, policies.get(given.role, 1))
        said = upstream.payload
        parts, metadata = (said.output, said.metadata) if isinstance(said, agent_pb2.TaskResult) else ((), {})
        yield common_pb2.ContextItem(
            ref=ref, policy=policy, publish_time=timestamp(upstream.end_time), parts=parts, metadata=metadata
        )


def _from_session(submission: Submission, given: ContextRef) -> common_pb2.ContextItem:
    """What the session knew, exactly as it was when the run was taken on."""
    known = submission.goal.session_context if isinstance(submission.goal, run_pb2.Submitted) else ()
    return next(one.item for one in known if (one.item.ref.role, one.item.ref.version) == (given.role, given.version))


def _tell_coordinator(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """Whom a coordinating role may delegate to, and what depends on what among them."""
    assert run.submission is not None
    if not any(target.role == task.role and target.coordinator for target in run.submission.targets):
        return
    above = {one.role for one in run.lineage(task)}
    targets = [target for target in run.submission.targets if target.role not in above]
    order = [target.role for target in targets]
    edges = [
        (one.upstream, one.downstream) for one in run.submission.edges if {one.upstream, one.downstream} <= {*order}
    ]
    assigned.awareness = awareness_message(edges, order)
    for target in targets:
        assigned.delegation_targets.add(role=target.role, description=target.description)


def _resume(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """What earlier attempts left. Results are left out where they get too large together: delegating the same again
    gives each."""
    match task.checkpoint:
        case run_pb2.Delegated() | agent_pb2.TaskResult():
            assigned.resume.checkpoint = task.checkpoint.checkpoint
        case run_pb2.CheckpointTaken():
            assigned.resume.checkpoint = task.checkpoint.data
    for answer in task.inputs:
        if isinstance(answer, run_pb2.InputGiven):
            assigned.resume.inputs.extend(answer.parts)
    size = 0
    for key, name in task.children.items():
        child = run.tasks[name]
        told = assigned.resume.delegations.add(memo_key=key, state=state_to_proto(child.state))
        if isinstance(child.payload_in, run_pb2.Delegated):
            told.input.MergeFrom(child.payload_in.input)
        if child.answered:
            told.result.CopyFrom(result_of(child))
        size += told.ByteSize()
        if size > MAX_RESUMED_BYTES:
            told.ClearField("result")
            told.ClearField("input")
