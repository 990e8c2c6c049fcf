"""Builds the step that a decision stores: events, inputs, recorded calls, publications, turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import text_of, timestamp
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import encode_inputs
from archon_services.orchestrator.convert import write_event
from archon_services.orchestrator.convert.stored_record import stored_record
from archon_services.orchestrator.journal import AuditRow, NewRun, Publication, RecordRow, Step, Turn
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.turn.chain import RunChain

_KINDS: Final = {agent_pb2.RECORD_KIND_MODEL: "model", agent_pb2.RECORD_KIND_TOOL: "tool"}


def build_step(
    run: RunState,
    *,
    run_id: str,
    epoch: int,
    base: int,
    batch_id: str,
    now: float,
    stored_at: float,
    events: Sequence[ev.Event],
    inputs: Sequence[inp.Input],
    batch: Sequence[Delivery],
    new: NewRun | None,
    state_before: int,
    publishes: bool,
    chain: RunChain,
    audit: Sequence[AuditRow] = (),
) -> Step:
    """Returns the step after event `base`. `run` is the state after `events`, `now` the time of the decision by
    the run's clock and `stored_at` by the journal's, in wall seconds, `publishes` whether there is a shared memory to
    publish answers in. `audit` are the entries about the commands that it executes."""
    response, at = pb.WatchRunResponse(), timestamp(now)
    add = response.events.add
    results: list[ev.ResultReceived] = []
    published: list[Publication] = []
    for seq, event in enumerate(events, base + 1):
        write_event(add(), event, run_id=run_id, seq=seq, time=at, epoch=epoch)
        if type(event) is ev.ResultReceived:
            results.append(event)
            if publishes and event.publish and _has_text(event.payload):
                published.append(_publication(run, event, seq))
        elif type(event) is ev.ItemPublished and publishes and _has_text(event.item.payload):
            published.append(_publication(run, event, seq))
    state = run.state.value
    data, given = response.SerializeToString(), encode_inputs(inputs, now)
    link = chain.next(base, base + len(events), data, given)
    claimed = type(events[0]) is ev.Claimed
    return Step(
        run_id,
        epoch,
        base,
        base + len(events),
        batch_id,
        stored_at,
        data,
        given,
        state,
        run.ended,
        state != state_before,
        new,
        _records(run_id, batch, run, events),
        tuple(published),
        tuple([delivery.posted for delivery in batch if delivery.posted]),
        _turns(run, results) if results else (),
        link,
        b"",
        chain.seal_reason(stored_at, ended=run.ended, claimed=claimed),
        tuple(audit),
    )


def _publication(run: RunState, event: ev.ResultReceived | ev.ItemPublished, seq: int) -> Publication:
    """An answer or an item that has a text to publish."""
    assert run.submission is not None
    return Publication(run.submission.scope, event.role, event.task_id, seq)


def _has_text(payload: object) -> bool:
    match payload:
        case agent_pb2.TaskResult():
            return bool(text_of(payload.output).strip())
        case run_pb2.ItemPublished():
            return bool(text_of(payload.parts).strip())
    return False


def _records(
    run_id: str, batch: Sequence[Delivery], run: RunState, events: Sequence[ev.Event]
) -> tuple[RecordRow, ...]:
    """The recorded calls that came with these deliveries and that an event counts. After a takeover an agent sends its
    records again; they are counted once."""
    if not [delivery for delivery in batch if delivery.records]:
        return ()
    counted = Counter((event.task_id, event.attempt, event.count) for event in events if type(event) is ev.Recorded)
    rows = []
    for delivery in batch if counted else ():
        source = delivery.given
        if not isinstance(
            source,
            (inp.ResultIn, inp.DelegateIn, inp.CheckpointIn, inp.PublishIn, inp.SendIn, inp.AskIn, inp.RecordsIn),
        ):
            continue
        key = source.task_id, source.attempt, len(delivery.records)
        if not counted[key]:
            continue
        counted[key] -= 1
        task = run.tasks.get(source.task_id)
        role = task.role if task is not None else ""
        ref = common_pb2.TaskRef(task_id=source.task_id, run_id=run_id, attempt=source.attempt)
        rows += [RecordRow(role, stored_record(_record(ref, role, record))) for record in delivery.records]
    return tuple(rows)


def _record(ref: common_pb2.TaskRef, role: str, record: agent_pb2.CallRecord) -> run_pb2.RunRecord:
    return run_pb2.RunRecord(
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


def _turns(run: RunState, results: Sequence[ev.ResultReceived]) -> tuple[Turn, ...]:
    """The turns that these results add to conversations."""
    return tuple(turn_of(run, result) for result in results if result.stores_turn)


def turn_of(run: RunState, result: ev.ResultReceived) -> Turn:
    """Returns the turn that a result adds: it follows the version of the conversation that its attempt was given."""
    payload, version = result.payload, run.tasks[result.task_id].conversation_version
    assert run.submission is not None
    assert isinstance(payload, agent_pb2.TaskResult)
    assert version is not None
    data = agent_pb2.AssignTask(history=payload.new_history).SerializeToString()
    return Turn(run.submission.tenant, run.submission.session_id, result.role, version + 1, data)
