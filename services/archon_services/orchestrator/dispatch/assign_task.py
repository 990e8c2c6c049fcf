"""What goes along with a dispatch and with an append: the task as an agent gets it, records, publications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.awareness import awareness_message
from archon_mesh.core.run import RunState, Task
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.budget import limits
from archon_mesh.core.run.types import ContextRef, Submission
from archon_services.orchestrator.convert.write import amount_to_proto, stamp, state_to_proto, timestamp
from archon_services.orchestrator.dispatch.replies import remaining, result_of
from archon_services.orchestrator.journal import Publication, RecordRow
from archon_services.orchestrator.ports import Delivery

MAX_RESUMED_BYTES = 1024 * 1024

_KINDS = {agent_pb2.RECORD_KIND_MODEL: "model", agent_pb2.RECORD_KIND_TOOL: "tool"}


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


def publications(run: RunState, decided: Sequence[ev.Event], base: int) -> tuple[Publication, ...]:
    """The text of every completed answer among these events: what the shared memory is to be fed."""
    assert run.submission is not None
    out = []
    for seq, event in enumerate(decided, base + 1):
        if not isinstance(event, ev.ResultReceived) or not event.publish:
            continue
        text = answer_text(event.payload)
        if text.strip():
            out.append(Publication(run.submission.scope, event.role, event.task_id, seq, text))
    return tuple(out)


def answer_text(payload: object) -> str:
    """The text parts of an answer, joined by empty lines."""
    if not isinstance(payload, agent_pb2.TaskResult):
        return ""
    return "\n\n".join(part.text for part in payload.output if part.WhichOneof("content") == "text")


def record_rows(
    run_id: str, batch: Sequence[Delivery], run: RunState, decided: Sequence[ev.Event]
) -> tuple[RecordRow, ...]:
    """The recorded calls that came with these deliveries, as far as an event counts them: what is said again after a
    takeover brings its records again, and counts once."""
    if not any(delivery.records for delivery in batch):
        return ()
    counted = Counter((e.task_id, e.attempt, e.count) for e in decided if type(e) is ev.Recorded)
    rows = []
    for delivery in batch if counted else ():
        if not isinstance(delivery.given, (inp.ResultIn, inp.DelegateIn, inp.CheckpointIn, inp.RecordsIn)):
            continue
        key = delivery.given.task_id, delivery.given.attempt, len(delivery.records)
        if not counted[key]:
            continue
        counted[key] -= 1
        task = run.tasks.get(delivery.given.task_id)
        role = task.role if task is not None else ""
        ref = common_pb2.TaskRef(task_id=delivery.given.task_id, run_id=run_id, attempt=delivery.given.attempt)
        for record in delivery.records:
            row = run_pb2.RunRecord(
                task=ref,
                role=role,
                kind=_KINDS.get(record.kind, ""),
                start_time=record.start_time,
                duration=record.duration,
                usage=record.usage,
                request_json=record.request_json,
                response_json=record.response_json,
                target=record.target,
            )
            rows.append(RecordRow(role, row.SerializeToString()))
    return tuple(rows)
