"""Events of questions to people, and of pauses."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import events as ev
from archon_services.orchestrator.convert.budget import amount_from_usage


def read_input_requested(event: run_pb2.RunEvent) -> ev.Event:
    source = event.input_requested
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_INPUT_REQUIRED, checkpoint=source.checkpoint)
    request = payload.input_request
    request.input_id, request.schema_json = source.input_id, source.schema_json
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
    )


def write_input_requested(out: run_pb2.RunEvent, event: ev.InputRequested) -> None:
    target = out.input_requested
    target.input_id, target.role, target.sequence = event.input_id, event.role, event.sequence
    source = event.payload
    if isinstance(source, agent_pb2.TaskResult):
        target.prompt.MergeFrom(source.input_request.prompt)
        target.schema_json, target.checkpoint = source.input_request.schema_json, source.checkpoint
        if source.HasField("usage"):
            target.usage.CopyFrom(source.usage)


def read_input_given(event: run_pb2.RunEvent) -> ev.Event:
    source = event.input_given
    return ev.InputGiven(
        event.task.task_id, source.input_id, source.identity, source.request_id, source.payload_hash.hex(), source
    )


def write_input_given(out: run_pb2.RunEvent, event: ev.InputGiven) -> None:
    if isinstance(event.payload, run_pb2.InputGiven):
        out.input_given.CopyFrom(event.payload)
    target = out.input_given
    target.input_id, target.identity, target.request_id = event.input_id, event.identity, event.request_id
    target.payload_hash = bytes.fromhex(event.digest)


def read_paused(event: run_pb2.RunEvent) -> ev.Event:
    return ev.Paused(event.paused.identity)


def write_paused(out: run_pb2.RunEvent, event: ev.Paused) -> None:
    out.paused.identity = event.identity


def read_resumed(event: run_pb2.RunEvent) -> ev.Event:
    return ev.Resumed(event.resumed.identity)


def write_resumed(out: run_pb2.RunEvent, event: ev.Resumed) -> None:
    out.resumed.identity = event.identity
