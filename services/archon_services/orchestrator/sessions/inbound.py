"""Converts the frames of an instance about an attempt to inputs of the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from archon.agent.records import without_payload
from archon.agent.values import MAX_TURN
from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FrameTooLarge
from archon.status import to_failure
from archon.wire import MAX_CHECKED_BYTES, text_of, to_seconds
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import NOTHING, Item, quantize
from archon_services.orchestrator.convert.budget import amount_from_budget, amount_from_usage, budget_from_proto
from archon_services.orchestrator.convert.failures import failure_from_proto
from archon_services.orchestrator.convert.message import content_size, type_name
from archon_services.orchestrator.convert.people import agent_terms, kind_from_proto
from archon_services.orchestrator.convert.task import state_from_proto
from archon_services.orchestrator.sessions.attempt_channel import Key

DELEGATION_TIMEOUT: Final = 60.0
"""The default timeout of a delegation, in seconds."""

MAX_KEY: Final = 256
"""Characters of an id or key that are kept."""

MAX_MESSAGE_TTL: Final = 7 * 86_400.0
"""The longest time to live of a message, in seconds: longer than any run."""

Resolve = Callable[[str, str], tuple[str, ...]]
"""From a role and a capability, one of them empty, to the matching roles that have an instance."""


def result_input(attempt: Key, result: agent_pb2.TaskResult, records: int) -> inp.ResultIn:
    history = result.new_history
    given = inp.ResultIn(
        *attempt,
        state_from_proto(result.state),
        result,
        failure_from_proto(result.failure) if result.HasField("failure") else None,
        not result.no_publish,
        records,
        amount_from_usage(result.usage) if result.HasField("usage") else NOTHING,
        result.input_request.input_id[:MAX_KEY],
        bool(result.checkpoint),
        bool(history),
        result.conversation_version,
        bool(history) and sum(message.ByteSize() for message in history) > MAX_TURN,
        items=_result_items(result) if result.items else (),
    )
    if result.input_request.kind or result.input_request.HasField("terms"):
        return _with_terms(given, result.input_request)
    return given


def _with_terms(given: inp.ResultIn, request: agent_pb2.InputRequest) -> inp.QuestionIn:
    values = {field.name: getattr(given, field.name) for field in fields(inp.ResultIn)}
    return inp.QuestionIn(**values, kind=kind_from_proto(request.kind), terms=agent_terms(request))


def within_limit(frame: session_pb2.AgentFrame) -> session_pb2.AgentFrame:
    """Returns a frame that is not larger than an orchestrator accepts (rule C10): in place of one that is, a record
    without its content, or a result that fails the attempt."""
    size = frame.ByteSize()
    if size <= MAX_CHECKED_BYTES or not frame.HasField("task"):
        return frame
    out = session_pb2.AgentFrame(task=frame.task, sequence=frame.sequence, ack=frame.ack)
    if frame.HasField("record"):
        out.record.CopyFrom(without_payload(frame.record))
        return out
    arm = frame.WhichOneof("frame")
    error = FrameTooLarge(
        f"a frame ({arm}) has {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are allowed; pass large content by URL",
        metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
    )
    out.result.state = common_pb2.TASK_STATE_FAILED
    out.result.failure.CopyFrom(to_failure(error))
    if arm == "result":
        out.result.usage.CopyFrom(frame.result.usage)
    return out


def checkpoint_input(frame: session_pb2.AgentFrame, records: int) -> inp.CheckpointIn:
    data = frame.checkpoint.data
    payload = run_pb2.CheckpointTaken(size=len(data), data=data)
    return inp.CheckpointIn(frame.task.task_id, frame.task.attempt, frame.sequence, records, payload)


def publish_input(frame: session_pb2.AgentFrame, records: int) -> inp.PublishIn | inp.RecordsIn:
    """The item; without a text, which is nothing to publish, only the records that came before it."""
    publish = frame.publish
    if not text_of(publish.parts).strip():
        return inp.RecordsIn(frame.task.task_id, frame.task.attempt, records, frame.sequence)
    payload = run_pb2.ItemPublished(parts=publish.parts, metadata=publish.metadata)
    item = Item(_policy(publish.policy), payload)
    return inp.PublishIn(frame.task.task_id, frame.task.attempt, frame.sequence, item, records)


def _result_items(result: agent_pb2.TaskResult) -> tuple[Item, ...]:
    """The items with a text that are published right after an answer."""
    return tuple(
        Item(_policy(item.policy), run_pb2.ItemPublished(parts=item.parts, metadata=item.metadata))
        for item in result.items
        if text_of(item.parts).strip()
    )


def _policy(policy: int) -> int:
    """The number of a policy; the narrowest for one that is not set, the widest for one that came later."""
    return min(
        max(policy, common_pb2.PROPAGATION_POLICY_FINAL_RESPONSE_ONLY), common_pb2.PROPAGATION_POLICY_FULL_HISTORY
    )


def send_input(frame: session_pb2.AgentFrame, records: int) -> inp.SendIn:
    """The message, without its sender and its place in the journal, which the engine sets."""
    message = frame.send_message
    return inp.SendIn(
        frame.task.task_id,
        frame.task.attempt,
        frame.sequence,
        message.message_id[:MAX_KEY],
        message.receiver_id[:MAX_KEY],
        type_name(message.message_type),
        message.correlation_id[:MAX_KEY],
        min(max(0.0, to_seconds(message.ttl)), MAX_MESSAGE_TTL),
        content_size(message),
        expects_reply=message.expects_reply,
        records=records,
        payload=message_pb2.PeerMessage(content=message.content, expects_reply=message.expects_reply),
    )


def subscribe_input(frame: session_pb2.AgentFrame) -> inp.SubscribeIn:
    topics = tuple(topic[:MAX_KEY] for topic in frame.subscribe.topics)
    return inp.SubscribeIn(frame.task.task_id, frame.task.attempt, frame.sequence, topics)


def ask_input(frame: session_pb2.AgentFrame, records: int) -> inp.AskIn:
    """The payload is a result that asks the same."""
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_INPUT_REQUIRED, input_request=frame.ask)
    input_id = frame.ask.input_id if len(frame.ask.input_id) <= MAX_KEY else ""
    kind, terms = kind_from_proto(frame.ask.kind), agent_terms(frame.ask)
    return inp.AskIn(frame.task.task_id, frame.task.attempt, frame.sequence, input_id, payload, records, kind, terms)


def delegate_input(frame: session_pb2.AgentFrame, records: int, resolve: Resolve) -> inp.DelegateIn:
    """The payload is the Delegated event's, without the fields that the engine decides."""
    delegate = frame.delegate
    roles = resolve(delegate.role, delegate.capability)
    payload = run_pb2.Delegated(input=delegate.input, checkpoint=delegate.checkpoint)
    if delegate.HasField("trace"):
        payload.trace.CopyFrom(delegate.trace)
    if delegate.HasField("budget"):
        payload.budget.CopyFrom(delegate.budget)
    memo_key = delegate.memo_key
    if len(memo_key) > MAX_KEY:
        memo_key = hashlib.sha256(memo_key.encode()).hexdigest()
    return inp.DelegateIn(
        frame.task.task_id,
        frame.task.attempt,
        delegate.delegation_id,
        frame.sequence,
        roles[0] if roles else delegate.role,
        bool(roles),
        _digest(delegate),
        payload,
        delegate.capability,
        memo_key,
        _timeout(delegate),
        budget_from_proto(delegate.budget),
        bool(delegate.checkpoint),
        records,
        roles[1:],
    )


def _timeout(delegate: session_pb2.Delegate) -> float:
    """The timeout of a delegation in seconds, at most the time limit of its budget."""
    timeout = quantize(to_seconds(delegate.timeout)) if delegate.HasField("timeout") else DELEGATION_TIMEOUT
    if delegate.budget.HasField("max_time"):
        return min(timeout, quantize(to_seconds(delegate.budget.max_time)))
    return timeout


def _digest(delegate: session_pb2.Delegate) -> str:
    """A digest of target and input, the base of the default memo key."""
    digest = hashlib.sha256(f"{delegate.WhichOneof('target')}\0{delegate.role or delegate.capability}\0".encode())
    for part in delegate.input:
        digest.update(hashlib.sha256(part.SerializeToString(deterministic=True)).digest())
    return digest.hexdigest()


def budget_input(frame: session_pb2.AgentFrame) -> inp.BudgetRequestIn:
    request = frame.budget_request
    wanted = amount_from_budget(request.budget)
    return inp.BudgetRequestIn(frame.task.task_id, frame.task.attempt, request.request_id, frame.sequence, wanted)


def unassigned_input(
    frame: session_pb2.AgentFrame, resolve: Resolve
) -> inp.DelegateIn | inp.BudgetRequestIn | inp.AskIn | inp.SendIn | inp.WorkingIn:
    """The input of a frame that waits for a reply, or of `adopted`, of an attempt that the session does not hold."""
    if frame.HasField("adopted"):
        return working_input(frame)
    if frame.HasField("ask"):
        return ask_input(frame, 0)
    if frame.HasField("send_message"):
        return send_input(frame, 0)
    return delegate_input(frame, 0, resolve) if frame.HasField("delegate") else budget_input(frame)


def working_input(frame: session_pb2.AgentFrame) -> inp.WorkingIn:
    return inp.WorkingIn(frame.task.task_id, frame.task.attempt)


def cancel_delegation_input(frame: session_pb2.AgentFrame) -> inp.CancelDelegationIn:
    delegation_id = frame.cancel_delegation.delegation_id
    return inp.CancelDelegationIn(frame.task.task_id, frame.task.attempt, delegation_id, frame.sequence)
