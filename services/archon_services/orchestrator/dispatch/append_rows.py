"""The rows that an append stores beside its events: call records, and answers for the shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import RunState
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.journal import Publication, RecordRow
from archon_services.orchestrator.ports import Delivery

_KINDS = {agent_pb2.RECORD_KIND_MODEL: "model", agent_pb2.RECORD_KIND_TOOL: "tool"}


def publications(run: RunState, decided: Sequence[ev.Event], base: int) -> tuple[Publication, ...]:
    """The text of every completed answer among the decided events, of which the first follows event `base`."""
    assert run.submission is not None
    rows = []
    for seq, event in enumerate(decided, base + 1):
        if not isinstance(event, ev.ResultReceived) or not event.publish:
            continue
        text = _answer_text(event.payload)
        if text.strip():
            rows.append(Publication(run.submission.scope, event.role, event.task_id, seq, text))
    return tuple(rows)


def _answer_text(payload: object) -> str:
    """The text parts of an answer, joined by empty lines."""
    if not isinstance(payload, agent_pb2.TaskResult):
        return ""
    return "\n\n".join(part.text for part in payload.output if part.WhichOneof("content") == "text")


def record_rows(
    run_id: str, batch: Sequence[Delivery], run: RunState, decided: Sequence[ev.Event]
) -> tuple[RecordRow, ...]:
    """The call records of these deliveries that a Recorded event counts.

    An agent repeats its frames after a takeover, with their records; the event counts them once.
    """
    if not any(delivery.records for delivery in batch):
        return ()
    counted = Counter((event.task_id, event.attempt, event.count) for event in decided if type(event) is ev.Recorded)
    rows = []
    for delivery in batch if counted else ():
        frame_input = delivery.given
        if not isinstance(frame_input, (inp.ResultIn, inp.DelegateIn, inp.CheckpointIn, inp.RecordsIn)):
            continue
        key = frame_input.task_id, frame_input.attempt, len(delivery.records)
        if not counted[key]:
            continue
        counted[key] -= 1
        task = run.tasks.get(frame_input.task_id)
        role = task.role if task is not None else ""
        ref = common_pb2.TaskRef(task_id=frame_input.task_id, run_id=run_id, attempt=frame_input.attempt)
        rows += [_record_row(ref, role, record) for record in delivery.records]
    return tuple(rows)


def _record_row(ref: common_pb2.TaskRef, role: str, record: agent_pb2.CallRecord) -> RecordRow:
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
    return RecordRow(role, row.SerializeToString())
