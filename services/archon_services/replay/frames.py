"""The frames of a recorded attempt, made again of its inputs and of the events that they caused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from archon.agent.values import MAX_TURN
from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.failure_kinds import GIVEN_BACK
from archon.types import Plan, RunRecord
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import Task as EnginePlan
from archon_mesh.engine.types import CONVERSATION_MOVED, DRAINING, PLAN_FAILED, Failure, TaskState
from archon_services.orchestrator.convert import failure_to_proto
from archon_services.orchestrator.convert.budget import amount_to_proto
from archon_services.orchestrator.convert.failures import reason_from_proto
from archon_services.orchestrator.convert.plan import write_planned
from archon_services.orchestrator.convert.task import state_to_proto

OTHER_VERSION: Final = 2**40
"""A version of a conversation that no attempt was given: a turn that is based on it comes second."""

_RECORD_KINDS: Final = {"model": agent_pb2.RECORD_KIND_MODEL, "tool": agent_pb2.RECORD_KIND_TOOL}


def frames_of(
    given: inp.Input, event: run_pb2.RunEvent, events: Sequence[run_pb2.RunEvent]
) -> list[session_pb2.AgentFrame]:
    """Returns the frames that brought an input, none if no frame brought it. `event` is its main event, of the `events`
    that it caused. Questions have the recorded approvers: see `for_anyone`."""
    match given:
        case inp.LostIn():
            reason, metadata = (DRAINING, ((GIVEN_BACK, "true"),)) if given.on_purpose else ("NOT_HELD", ())
            gone = Failure("UNAVAILABLE", reason, "in the recording, its instance was lost", metadata)
            return [_frame(reject=session_pb2.Reject(failure=failure_to_proto(gone)))]
        case inp.RejectIn():
            return [_frame(reject=session_pb2.Reject(failure=failure_to_proto(given.failure)))]
        case inp.DelegateIn():
            return [_frame(delegate=_delegate(given, event.delegated))]
        case inp.CancelDelegationIn():
            return [_frame(cancel_delegation=session_pb2.CancelDelegation(delegation_id=given.delegation_id))]
        case inp.BudgetRequestIn():
            request = session_pb2.BudgetRequest(request_id=given.request_id)
            amount_to_proto(given.wanted, request.budget)
            return [_frame(budget_request=request)]
        case inp.UsageIn():
            spent = given.spent
            usage = common_pb2.Usage(output_tokens=spent.tokens, cost_micro_usd=spent.cost, model_calls=spent.calls)
            return [_frame(progress=agent_pb2.Progress(usage=usage))]
        case inp.CheckpointIn():
            return [_frame(checkpoint=session_pb2.Checkpoint(data=event.checkpoint.data))]
        case inp.PublishIn():
            item = event.item_published
            published = session_pb2.Publish(parts=item.parts, policy=item.policy, metadata=item.metadata)
            return [_frame(publish=published)]
        case inp.SendIn():
            return [_frame(send_message=_message(given, event.message_sent.message))]
        case inp.SubscribeIn():
            return [_frame(subscribe=session_pb2.Subscribe(topics=given.topics))]
        case inp.AskIn():
            return [_frame(ask=_question(given.input_id, event.input_requested))]
        case inp.ResultIn():
            return [_frame(result=_result(given, events))]
    return []


def for_anyone(frame: session_pb2.AgentFrame) -> session_pb2.AgentFrame:
    """Returns a frame whose question anyone may answer."""
    kind = frame.WhichOneof("frame")
    if kind not in ("ask", "result"):
        return frame
    changed = session_pb2.AgentFrame()
    changed.CopyFrom(frame)
    (changed.ask if kind == "ask" else changed.result.input_request).terms.ClearField("approvers")
    return changed


def record_frame(record: RunRecord) -> session_pb2.AgentFrame:
    """Returns the frame of a recorded call."""
    source = record.proto
    call = agent_pb2.CallRecord(
        kind=_RECORD_KINDS.get(source.kind, agent_pb2.RECORD_KIND_UNSPECIFIED),
        start_time=source.start_time,
        duration=source.duration,
        request_json=source.request_json,
        response_json=source.response_json,
        target=source.target,
    )
    if source.HasField("usage"):
        call.usage.CopyFrom(source.usage)
    return _frame(record=call)


def plan_json_of(plan: EnginePlan) -> str:
    """Returns a plan as the JSON with which it is submitted and edited."""
    out = run_pb2.RunEvent()
    write_planned(out, ev.Planned("", 0, plan))
    return Plan.from_proto(out.planned.plan).to_json()


def _result(given: inp.ResultIn, events: Sequence[run_pb2.RunEvent]) -> agent_pb2.TaskResult:
    """The result of an attempt: state and failure of the input, content and spending of the event that has them."""
    result = agent_pb2.TaskResult(state=state_to_proto(given.state), no_publish=not given.publish)
    if given.failure is not None:
        result.failure.CopyFrom(failure_to_proto(given.failure))
    for event in (event for event in events if event.task.task_id == given.task_id):
        match event.WhichOneof("event"):
            case "result":
                _add_content(result, event.result, _items(events, given.task_id))
            case "approval_requested":
                _add_content(result, event.approval_requested.result, event.approval_requested.items)
            case "input_requested":
                result.checkpoint = event.input_requested.checkpoint
                result.input_request.CopyFrom(_question(given.input_id, event.input_requested))
                _add_usage(result, event.input_requested)
            case "retry":
                _add_usage(result, event.retry)
                _add_reply(result, given, event.retry)
            case "discarded":
                _add_usage(result, event.discarded)
    if given.input_id and not result.HasField("input_request"):
        result.input_request.input_id = given.input_id
    if given.has_turn:
        parts = [common_pb2.Part(text="x" * (MAX_TURN + 1))] if given.turn_too_large else result.output
        result.new_history.add(role="assistant", parts=parts)
        if given.version_conflict or any(_moved(event) for event in events):
            result.conversation_version = OTHER_VERSION
    return result


def _add_reply(result: agent_pb2.TaskResult, given: inp.ResultIn, retry: run_pb2.RetryScheduled) -> None:
    """The reply of a planner whose task was tried again. An earlier version recorded only why the reply was refused; a
    plan whose turn came second is recorded with its input."""
    result.output.extend(retry.reply)
    if retry.reply or given.state is not TaskState.COMPLETED:
        return
    if reason_from_proto(retry.failure.reason) == PLAN_FAILED:
        result.state = common_pb2.TASK_STATE_FAILED
        result.failure.CopyFrom(retry.failure)
    elif isinstance(given, inp.PlanIn) and given.plan is not None:
        result.output.add(text=plan_json_of(given.plan))


def _moved(event: run_pb2.RunEvent) -> bool:
    """Whether the event says that another turn was stored first: in the recording, another run may have done so."""
    kind = event.WhichOneof("event")
    failure = event.retry.failure if kind == "retry" else event.result.failure if kind == "result" else None
    return failure is not None and reason_from_proto(failure.reason) == CONVERSATION_MOVED


def _add_content(
    result: agent_pb2.TaskResult, source: run_pb2.ResultReceived, items: Iterable[run_pb2.ItemPublished]
) -> None:
    result.output.extend(source.output)
    result.used.extend(source.used)
    result.no_publish = source.no_publish
    result.metadata.update(source.metadata)
    result.messages_read = source.messages_read
    _add_usage(result, source)
    for item in items:
        result.items.add(parts=item.parts, policy=item.policy, metadata=item.metadata)


def _add_usage(
    result: agent_pb2.TaskResult,
    source: run_pb2.ResultReceived | run_pb2.InputRequested | run_pb2.RetryScheduled | run_pb2.DiscardedResult,
) -> None:
    if source.HasField("usage"):
        result.usage.CopyFrom(source.usage)


def _items(events: Sequence[run_pb2.RunEvent], task_id: str) -> list[run_pb2.ItemPublished]:
    """The items that were published right after a result."""
    return [
        event.item_published
        for event in events
        if event.HasField("item_published") and not event.item_published.sequence and event.task.task_id == task_id
    ]


def _message(given: inp.SendIn, source: message_pb2.PeerMessage) -> message_pb2.PeerMessage:
    message = message_pb2.PeerMessage()
    message.CopyFrom(source)
    for name in ("sender_id", "sender_task_id", "seq", "send_time"):
        message.ClearField(name)
    message.expects_reply = given.expects_reply
    return message


def _question(input_id: str, asked: run_pb2.InputRequested) -> agent_pb2.InputRequest:
    request = agent_pb2.InputRequest(
        input_id=input_id,
        prompt=asked.prompt,
        schema_json=asked.schema_json,
        kind=asked.kind,
        subject_json=asked.subject_json,
    )
    if asked.HasField("terms"):
        request.terms.CopyFrom(asked.terms)
    return request


def _delegate(given: inp.DelegateIn, source: run_pb2.Delegated) -> session_pb2.Delegate:
    delegate = session_pb2.Delegate(
        delegation_id=given.delegation_id,
        input=source.input,
        memo_key=given.memo_key,
        checkpoint=source.checkpoint,
        timeout=source.timeout,
    )
    if given.capability:
        delegate.capability = given.capability
    else:
        delegate.role = given.role
    if source.HasField("budget"):
        delegate.budget.CopyFrom(source.budget)
    return delegate


def _frame(**content: object) -> session_pb2.AgentFrame:
    return session_pb2.AgentFrame(**content)  # type: ignore[arg-type]
