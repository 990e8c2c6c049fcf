"""Records of model and tool calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from archon.api.agent.v1 import agent_pb2
from archon.surrogates import without_surrogates
from archon.types.usage import Usage
from archon.wire import set_seconds, to_seconds

MAX_RECORD_BYTES = 1024 * 1024

CallKind = Literal["model", "tool", ""]
"""The kind of call; empty for a kind that this version does not know."""

_KINDS: Final[dict[CallKind, agent_pb2.RecordKind.ValueType]] = {
    "model": agent_pb2.RECORD_KIND_MODEL,
    "tool": agent_pb2.RECORD_KIND_TOOL,
    "": agent_pb2.RECORD_KIND_UNSPECIFIED,
}
_KIND_OF: Final[dict[int, CallKind]] = {int(number): kind for kind, number in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of a model or a tool, whose name is `target`. `request_json` and `response_json` are one JSON value
    each, `started` is in seconds since the Unix epoch."""

    kind: CallKind
    target: str
    request_json: str = ""
    response_json: str = ""
    started: float = 0.0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    @property
    def proto(self) -> agent_pb2.CallRecord:
        """The record as a message."""
        message = agent_pb2.CallRecord(
            kind=_KINDS[self.kind],
            target=self.target,
            request_json=self.request_json,
            response_json=self.response_json,
            usage=self.usage.proto,
        )
        set_seconds(message.start_time, self.started)
        set_seconds(message.duration, self.seconds)
        return message

    @classmethod
    def from_proto(cls, message: agent_pb2.CallRecord) -> CallRecord:
        """Returns the record that a message has."""
        return cls(
            _KIND_OF.get(message.kind, ""),
            message.target,
            message.request_json,
            message.response_json,
            to_seconds(message.start_time),
            to_seconds(message.duration),
            Usage.from_proto(message.usage),
        )


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
