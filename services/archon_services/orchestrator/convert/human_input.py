"""Events of questions to people, and of pauses."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import text_of
from archon_mesh.core.people import NO_TERMS, TimeoutPolicy
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Item, TaskState
from archon_services.orchestrator.convert.budget import amount_from_usage
from archon_services.orchestrator.convert.people import (
    breakpoint_from_proto,
    breakpoint_to_proto,
    decision_from_proto,
    given_from_payload,
    kind_from_proto,
    terms_from_proto,
    write_terms,
)
from archon_services.orchestrator.convert.plan import read_planned, write_planned
from archon_services.orchestrator.convert.task import read_result, write_result


def read_input_requested(event: run_pb2.RunEvent) -> ev.Event:
    source = event.input_requested
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_INPUT_REQUIRED, checkpoint=source.checkpoint)
    request = payload.input_request
    request.input_id, request.schema_json = source.input_id, source.schema_json
    request.subject_json, request.kind = source.subject_json, source.kind
    request.prompt.MergeFrom(source.prompt)
    if source.HasField("usage"):
        payload.usage.CopyFrom(source.usage)
    return ev.InputRequested(
        event.task.task_id,
        event.task.attempt,
        source.role,
        source.input_id,
        payload,
        amount_from_usage(source.usage),
        bool(source.checkpoint),
        source.sequence,
        kind_from_proto(source.kind),
        terms_from_proto(source.terms) if source.HasField("terms") else NO_TERMS,
    )


def write_input_requested(out: run_pb2.RunEvent, event: ev.InputRequested) -> None:
    target = out.input_requested
    target.input_id, target.role, target.sequence = event.input_id, event.role, event.sequence
    target.kind = question_pb2.QuestionKind.ValueType(event.kind)
    write_terms(event.terms, target.terms)
    source = event.payload
    if isinstance(source, agent_pb2.TaskResult):
        target.prompt.MergeFrom(source.input_request.prompt)
        target.schema_json, target.checkpoint = source.input_request.schema_json, source.checkpoint
        target.subject_json = source.input_request.subject_json
        if source.HasField("usage"):
            target.usage.CopyFrom(source.usage)


def read_input_given(event: run_pb2.RunEvent) -> ev.Event:
    source = event.input_given
    return ev.InputGiven(
        event.task.task_id,
        source.input_id,
        source.identity,
        source.request_id,
        source.payload_hash.hex(),
        source,
        decision_from_proto(source.decision),
    )


def write_input_given(out: run_pb2.RunEvent, event: ev.InputGiven) -> None:
    out.input_given.CopyFrom(given_from_payload(event.payload))
    target = out.input_given
    target.decision = question_pb2.Decision.ValueType(event.decision)
    target.input_id, target.identity, target.request_id = event.input_id, event.identity, event.request_id
    target.payload_hash = bytes.fromhex(event.digest)


def read_approval_requested(event: run_pb2.RunEvent) -> ev.Event:
    source = event.approval_requested
    held = run_pb2.RunEvent(task=event.task, result=source.result)
    result = read_result(held)
    planned = None
    if source.HasField("plan"):
        planned = read_planned(run_pb2.RunEvent(task=event.task, planned=run_pb2.Planned(plan=source.plan)))
    return ev.ApprovalRequested(
        event.task.task_id,
        event.task.attempt,
        result.role,
        source.input_id,
        terms_from_proto(source.terms),
        result.payload,
        result.failure,
        result.spent,
        result.publish,
        tuple(Item(int(item.policy), item) for item in source.items),
        planned.plan if planned is not None else None,
        planned.changes if planned is not None else (),
        text_of(source.prompt),
        source.reason,
        result.winner,
        source.breakpoint,
    )


def write_approval_requested(out: run_pb2.RunEvent, event: ev.ApprovalRequested) -> None:
    target = out.approval_requested
    target.input_id, target.reason, target.breakpoint = event.input_id, event.reason, event.breakpoint
    write_terms(event.terms, target.terms)
    if event.message:
        target.prompt.add(text=event.message)
    state = TaskState.COMPLETED if event.failure is None else TaskState.FAILED
    result = ev.ResultReceived(
        event.task_id,
        event.attempt,
        event.role,
        state,
        event.payload,
        event.failure,
        event.publish,
        event.spent,
    )
    held = run_pb2.RunEvent()
    write_result(held, result)
    target.result.CopyFrom(held.result)
    for item in event.items:
        published = target.items.add()
        if isinstance(item.payload, run_pb2.ItemPublished):
            published.CopyFrom(item.payload)
        published.role, published.policy = event.role, common_pb2.PropagationPolicy.ValueType(item.policy)
    if event.plan is not None:
        planned = run_pb2.RunEvent()
        write_planned(planned, ev.Planned(event.task_id, 0, event.plan, event.changes))
        target.plan.CopyFrom(planned.planned.plan)


def read_breakpoints_set(event: run_pb2.RunEvent) -> ev.Event:
    source = event.breakpoints_set
    return ev.BreakpointsSet(source.identity, tuple(map(breakpoint_from_proto, source.breakpoints)))


def write_breakpoints_set(out: run_pb2.RunEvent, event: ev.BreakpointsSet) -> None:
    target = out.breakpoints_set
    target.identity = event.identity
    target.breakpoints.extend(map(breakpoint_to_proto, event.breakpoints))


def read_question_timed_out(event: run_pb2.RunEvent) -> ev.Event:
    source = event.question_timed_out
    policy = TimeoutPolicy(source.policy)
    return ev.QuestionTimedOut(event.task.task_id, source.input_id, source.rule, policy, source.approver)


def write_question_timed_out(out: run_pb2.RunEvent, event: ev.QuestionTimedOut) -> None:
    target = out.question_timed_out
    target.input_id, target.rule, target.approver = event.input_id, event.rule, event.level
    target.policy = question_pb2.TimeoutPolicy.ValueType(event.policy)


def read_paused(event: run_pb2.RunEvent) -> ev.Event:
    return ev.Paused(event.paused.identity)


def write_paused(out: run_pb2.RunEvent, event: ev.Paused) -> None:
    out.paused.identity = event.identity


def read_resumed(event: run_pb2.RunEvent) -> ev.Event:
    return ev.Resumed(event.resumed.identity)


def write_resumed(out: run_pb2.RunEvent, event: ev.Resumed) -> None:
    out.resumed.identity = event.identity
