"""What a handler sees of its task, and what it may answer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, FailedPrecondition

MAX_RECORD_BYTES = 1024 * 1024
MAX_DELTA_CHARS = 16 * 1024


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One upstream answer: which role's, its text, its version (0: straight from the run's journal)."""

    role: str
    text: str
    version: int
    metadata: Mapping[str, str]
    proto: common_pb2.ContextItem


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer where a plain string doesn't say enough. `parts` go before `text`."""

    text: str = ""
    parts: Sequence[common_pb2.Part] = ()
    usage: common_pb2.Usage | None = None
    publish: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)


class TaskRejected(FailedPrecondition):
    """Raise it in a handler: this role refuses the task. That is final."""

    default_reason = "REJECTED"


def clean(text: str) -> str:
    """Text that can travel: lone surrogates, which UTF-8 has no bytes for, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def text_of(parts: Sequence[common_pb2.Part]) -> str:
    """The text parts, joined by empty lines."""
    return "\n\n".join(part.text for part in parts if part.WhichOneof("content") == "text")


class TaskContext:
    """One attempt at one task. All methods are cheap and never wait; a plain function may call them from its thread."""

    def __init__(
        self,
        ref: common_pb2.TaskRef,
        assigned: agent_pb2.AssignTask,
        send: Callable[[session_pb2.AgentFrame], None],
        *,
        role: str = "",
    ) -> None:
        self._ref = ref
        self._assigned = assigned
        self._send = send
        self._offset = 0
        self._records: list[agent_pb2.CallRecord] = []
        self._recording = os.environ.get("ARCHON_RECORDS", "full") != "off"
        self.deadline: float | None = None
        """On the monotonic clock of this process, in seconds; None: no end."""
        self.role = role
        self.usage = common_pb2.Usage()
        """What was spent so far; `record_model_call` adds to it."""
        if assigned.HasField("remaining"):
            self.deadline = time.monotonic() + assigned.remaining.ToNanoseconds() / 1e9

    @property
    def task_id(self) -> str:
        """The task, the same for all attempts."""
        return self._ref.task_id

    @property
    def run_id(self) -> str:
        """The run that the task belongs to."""
        return self._ref.run_id

    @property
    def attempt(self) -> int:
        """From 1; one more with each dispatch."""
        return self._ref.attempt

    @property
    def parts(self) -> Sequence[common_pb2.Part]:
        """What to work on, whole."""
        return self._assigned.input

    @property
    def text(self) -> str:
        """What to work on: its text."""
        return text_of(self._assigned.input)

    @property
    def context(self) -> list[ContextItem]:
        """Answers of the roles that this one depends on, in dependency order."""
        return [
            ContextItem(item.ref.role, text_of(item.parts), item.ref.version, dict(item.metadata), item)
            for item in self._assigned.context
        ]

    @property
    def awareness(self) -> str:
        """What a coordinating role should know of the others; empty for all other roles."""
        return self._assigned.awareness

    @property
    def expected_output(self) -> str:
        """What a good answer looks like; empty where nobody said."""
        return self._assigned.expected_output

    @property
    def trace(self) -> common_pb2.TraceContext:
        """Where the task belongs in a trace (W3C Trace Context)."""
        return self._assigned.trace

    @property
    def metadata(self) -> Mapping[str, str]:
        """The submitter's remarks."""
        return self._assigned.metadata

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts: for calls to systems that deduplicate."""
        return self._assigned.idempotency_key

    @property
    def checkpoint(self) -> bytes:
        """What the last attempt that left one left; empty where none did."""
        return self._assigned.resume.checkpoint

    def remaining(self) -> float | None:
        """Seconds left for this task; None where there is no end."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def write(self, text: str) -> None:
        """Streams more of the answer's text to whoever watches. It may be dropped under load; the answer is not."""
        text = clean(text)
        for start in range(0, len(text), MAX_DELTA_CHARS):
            delta = text[start : start + MAX_DELTA_CHARS]
            progress = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, offset=self._offset, text=delta)
            self._offset += len(delta.encode())
            self._send(session_pb2.AgentFrame(progress=progress))

    def record_model_call(
        self, model: str, request: Any, response: Any, *, started: float, seconds: float, usage: common_pb2.Usage
    ) -> None:
        """Records a call exactly as it was made; `request` and `response` are JSON values, `started` wall seconds.
        Counts its usage either way; keeps nothing where ARCHON_RECORDS=off."""
        self.usage.input_tokens += usage.input_tokens
        self.usage.output_tokens += usage.output_tokens
        self.usage.cost_micro_usd += usage.cost_micro_usd
        self.usage.model_calls += 1
        self.usage.estimated |= usage.estimated
        if not self._recording:
            return
        record = agent_pb2.CallRecord(
            kind=agent_pb2.RECORD_KIND_MODEL,
            usage=usage,
            target=model,
            request_json=_json(request),
            response_json=_json(response),
        )
        record.start_time.FromNanoseconds(int(started * 1e9))
        record.duration.FromNanoseconds(int(seconds * 1e9))
        self._records.append(record)

    def take_records(self) -> list[agent_pb2.CallRecord]:
        """What was recorded since the last time. For the server."""
        records, self._records = self._records, []
        return records

    def completed(self, answer: object) -> agent_pb2.TaskResult:
        """What a handler returned, as a completed result. For the server. Raises ArchonError for anything but a string,
        None (no text) or an Answer."""
        if answer is None:
            answer = ""
        if isinstance(answer, str):
            answer = Answer(answer)
        if not isinstance(answer, Answer):
            raise ArchonError(
                f"the handler of {self.role or 'this role'} returned {type(answer).__name__}, not str or Answer"
            )
        result = agent_pb2.TaskResult(
            state=common_pb2.TASK_STATE_COMPLETED,
            output=answer.parts,
            usage=answer.usage or self.usage,
            used=[item.ref for item in self._assigned.context],
            no_publish=not answer.publish,
            metadata=answer.metadata,
        )
        if answer.text:
            result.output.add(text=clean(answer.text))
        return result


def without_payload(record: agent_pb2.CallRecord) -> agent_pb2.CallRecord:
    """The record of a call whose request or response is more than a frame takes."""
    small = agent_pb2.CallRecord()
    small.CopyFrom(record)
    small.request_json = _left_out(len(record.request_json.encode()))
    small.response_json = _left_out(len(record.response_json.encode()))
    return small


def _json(value: Any) -> str:
    text = clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    size = len(text.encode())
    return text if size <= MAX_RECORD_BYTES else _left_out(size)


def _left_out(size: int) -> str:
    return json.dumps({"archon.dev/left-out": f"{size} bytes are more than fits"})
