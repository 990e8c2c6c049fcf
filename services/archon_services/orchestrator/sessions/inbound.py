"""What an instance says of an attempt, in the engine's words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from archon.agent.values import MAX_TURN
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Amount, quantize
from archon_services.orchestrator.convert.failures import failure_from_proto
from archon_services.orchestrator.convert.read import (
    amount_from_usage,
    budget_from_proto,
    seconds_of,
    state_from_proto,
)

DELEGATION_TIMEOUT: Final = 60.0
MAX_KEY: Final = 256

Resolve = Callable[[str, str], tuple[str, ...]]
"""From a role or a capability to the roles that are played now."""


def result_input(ref: common_pb2.TaskRef, said: agent_pb2.TaskResult, records: int) -> inp.ResultIn:
    """How the attempt ended."""
    return inp.ResultIn(
        ref.task_id,
        ref.attempt,
        state_from_proto(said.state),
        said,
        failure_from_proto(said.failure) if said.HasField("failure") else None,
        not said.no_publish,
        records,
        amount_from_usage(said.usage),
        said.input_request.input_id[:MAX_KEY],
        bool(said.checkpoint),
        bool(said.new_history),
        said.conversation_version,
        turn_too_large=sum(one.ByteSize() for one in said.new_history) > MAX_TURN,
    )


def checkpoint_input(frame: session_pb2.AgentFrame, records: int) -> inp.CheckpointIn:
    """What a later attempt is to go on from."""
    data = frame.checkpoint.data
    payload = run_pb2.CheckpointTaken(size=len(data), data=data)
    return inp.CheckpointIn(frame.task.task_id, frame.task.attempt, frame.sequence, records, payload)


def delegate_input(frame: session_pb2.AgentFrame, records: int, resolve: Resolve) -> inp.DelegateIn:
    """What is to be handed on. Its payload is the event's, without what the engine decides."""
    said = frame.delegate
    roles = resolve(said.role, said.capability)
    payload = run_pb2.Delegated(input=said.input, checkpoint=said.checkpoint)
    if said.HasField("trace"):
        payload.trace.CopyFrom(said.trace)
    if said.HasField("budget"):
        payload.budget.CopyFrom(said.budget)
    return inp.DelegateIn(
        frame.task.task_id,
        frame.task.attempt,
        said.delegation_id,
        frame.sequence,
        roles[0] if roles else said.role,
        bool(roles),
        _digest(said),
        payload,
        said.capability,
        said.memo_key if len(said.memo_key) <= MAX_KEY else hashlib.sha256(said.memo_key.encode()).hexdigest(),
        _time(said),
        budget_from_proto(said.budget),
        bool(said.checkpoint),
        records,
        roles[1:],
    )


def _time(said: session_pb2.Delegate) -> float:
    """Its timeout in seconds, or what its part of the budget has of it where that is less: as a run's."""
    timeout = quantize(seconds_of(said.timeout)) if said.HasField("timeout") else DELEGATION_TIMEOUT
    if said.budget.HasField("max_time"):
        return min(timeout, quantize(seconds_of(said.budget.max_time)))
    return timeout


def _digest(said: session_pb2.Delegate) -> str:
    """The same target and input, the same digest: what is remembered of a delegation without a key of its own."""
    digest = hashlib.sha256(f"{said.WhichOneof('target')}\0{said.role or said.capability}\0".encode())
    for part in said.input:
        digest.update(hashlib.sha256(part.SerializeToString(deterministic=True)).digest())
    return digest.hexdigest()


def budget_input(frame: session_pb2.AgentFrame) -> inp.BudgetRequestIn:
    """How much more it wants to spend."""
    said = frame.budget_request
    wanted = Amount(max(0, said.budget.max_tokens), max(0, said.budget.max_cost_micro_usd))
    return inp.BudgetRequestIn(frame.task.task_id, frame.task.attempt, said.request_id, frame.sequence, wanted)


def asked_input(
    frame: session_pb2.AgentFrame, resolve: Resolve
) -> inp.DelegateIn | inp.BudgetRequestIn | inp.WorkingIn:
    """What an attempt that isn't known here waits for an answer to, or that it is still worked on."""
    if frame.HasField("adopted"):
        return inp.WorkingIn(frame.task.task_id, frame.task.attempt)
    return delegate_input(frame, 0, resolve) if frame.HasField("delegate") else budget_input(frame)


def needless_input(frame: session_pb2.AgentFrame) -> inp.CancelDelegationIn:
    """Which answer it waits for no more."""
    said = frame.cancel_delegation
    return inp.CancelDelegationIn(frame.task.task_id, frame.task.attempt, said.delegation_id, frame.sequence)
