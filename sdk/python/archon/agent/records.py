"""Records of model and tool calls."""

from __future__ import annotations

import json
from typing import Any

from archon.api.agent.v1 import agent_pb2
from archon.surrogates import without_surrogates
from archon.wire import set_seconds

MAX_RECORD_BYTES = 1024 * 1024


def call_record(
    kind: agent_pb2.RecordKind.ValueType, target: str, request: Any, response: Any, started: float, seconds: float
) -> agent_pb2.CallRecord:
    """A record. `request` and `response` are JSON values, `started` is in seconds since the Unix epoch."""
    record = agent_pb2.CallRecord(kind=kind, target=target, request_json=_text(request), response_json=_text(response))
    set_seconds(record.start_time, started)
    set_seconds(record.duration, seconds)
    return record


def without_payload(record: agent_pb2.CallRecord) -> agent_pb2.CallRecord:
    """A copy without request and response, for a record that does not fit in a frame."""
    small = agent_pb2.CallRecord()
    small.CopyFrom(record)
    small.request_json = _left_out(len(record.request_json.encode()))
    small.response_json = _left_out(len(record.response_json.encode()))
    return small


def _text(value: Any) -> str:
    text = without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    size = len(text.encode())
    return text if size <= MAX_RECORD_BYTES else _left_out(size)


def _left_out(size: int) -> str:
    return json.dumps({"archon.dev/left-out": f"{size} bytes, too large to record"})
