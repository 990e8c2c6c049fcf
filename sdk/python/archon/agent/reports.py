"""The reports of an attempt while it works: usage against its budget, text for watchers, and records of its calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from archon.agent.assignment import Assignment
from archon.agent.budget import UNLIMITED, AttemptBudget
from archon.agent.link import Link
from archon.agent.records import CallRecord, call_record
from archon.agent.redaction import RecordMode, record_mode, redacted_value
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import BudgetExhausted, FieldViolation, InvalidArgument
from archon.status import from_failure
from archon.surrogates import without_surrogates
from archon.types.usage import COUNTS, Usage

MAX_DELTA_CHARS: Final = 16 * 1024
MAX_SHOWN_BYTES: Final = 64 * 1024
"""A larger tool call or result is not shown while it happens; its record has it."""


class TaskReports(Assignment):
    """An assignment whose attempt reports over `link`."""

    role: str

    def _begin_reports(self, link: Link) -> None:
        self._link = link
        self._offset = 0
        self._budget = AttemptBudget(self._assigned) if self._assigned.HasField("budget") else UNLIMITED
        self._records: list[agent_pb2.CallRecord] = []
        self._usage = common_pb2.Usage()

    @property
    def usage(self) -> Usage:
        """The usage so far; `record_model_call` and `add_usage` add to it."""
        return Usage.from_proto(self._usage)

    async def reserve(self, *, tokens: int = 0, cost_micro_usd: int = 0, model_calls: int = 1) -> None:
        """Reserves a part of the run's budget for this attempt, beyond its usage so far; call it before a model call.
        Returns at once if the run has no budget. Raises BudgetExhausted if less is left, InvalidArgument for a negative
        amount."""
        for name, amount in (("tokens", tokens), ("cost_micro_usd", cost_micro_usd), ("model_calls", model_calls)):
            if amount < 0:
                raise InvalidArgument(
                    f"{name} is {amount}, and must not be negative",
                    field_violations=[FieldViolation(name, "must not be negative")],
                )
        while (missing := self._budget.missing(self._usage, tokens, cost_micro_usd, model_calls)) is not None:
            grant = await self._link.reserve(missing)
            if grant.HasField("failure"):
                raise from_failure(grant.failure)
            if not grant.HasField("budget"):
                raise BudgetExhausted(
                    f"insufficient budget: {tokens:,} tokens, {cost_micro_usd:,} micro-USD, {model_calls} calls needed",
                    metadata={"role": self.role},
                )
            self._budget.add(grant.budget)
        self._budget.reserve(tokens, cost_micro_usd, model_calls)

    def settle(self) -> None:
        """Releases the oldest reservation, for a model call that was not made after all."""
        self._budget.settle()

    def write(self, text: str) -> None:
        """Streams more of the answer's text to watchers. It may be dropped under load; the answer itself is not."""
        text = without_surrogates(text)
        for start in range(0, len(text), MAX_DELTA_CHARS):
            delta = text[start : start + MAX_DELTA_CHARS]
            progress = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, offset=self._offset, text=delta)
            self._offset += len(delta.encode())
            self._link.send(session_pb2.AgentFrame(progress=progress))

    def think(self, text: str) -> None:
        """Streams more of a model's thinking to watchers. It is not part of the answer, and is not stored; may be
        dropped under load."""
        text = without_surrogates(text)
        for start in range(0, len(text), MAX_DELTA_CHARS):
            thinking = text[start : start + MAX_DELTA_CHARS]
            progress = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, thinking=thinking)
            self._link.send(session_pb2.AgentFrame(progress=progress))

    def record_model_call(
        self,
        model: str,
        request: Any,
        response: Any,
        *,
        started: float,
        seconds: float,
        usage: Usage,
        retried: bool = False,
        redacted: bool = False,
    ) -> None:
        """Records a model call exactly as it was made, and counts its usage. `request` and `response` are JSON values,
        `started` is in seconds since the Unix epoch. With ARCHON_RECORDS=redacted only their sizes and hashes are
        recorded, unless they are `redacted` already; with `off` only the usage is counted.

        The call releases the oldest reservation, unless it is `retried`: then the next try needs it.
        """
        self._count(replace(usage, model_calls=1, tool_calls=0))
        if not retried:
            self.settle()
        self.send_usage()
        record = self._record(agent_pb2.RECORD_KIND_MODEL, model, request, response, started, seconds, redacted)
        if record is not None:
            record.usage.CopyFrom(usage.proto)

    def add_usage(self, usage: Usage) -> None:
        """Counts usage without recording a call: of work that another system did for this task."""
        self._count(usage)
        self.send_usage()

    def _count(self, usage: Usage) -> None:
        for name in COUNTS:
            setattr(self._usage, name, getattr(self._usage, name) + getattr(usage, name))
        self._usage.estimated |= usage.estimated

    def record_tool_call(
        self, tool: str, arguments: Any, result: Any, *, started: float, seconds: float, redacted: bool = False
    ) -> None:
        """Records a tool call. `arguments` and `result` are JSON values, `started` is seconds since the Unix epoch;
        `redacted` as for a model call."""
        self._record(agent_pb2.RECORD_KIND_TOOL, tool, arguments, result, started, seconds, redacted)

    def _record(
        self,
        kind: agent_pb2.RecordKind.ValueType,
        target: str,
        request: Any,
        response: Any,
        started: float,
        seconds: float,
        redacted: bool,
    ) -> agent_pb2.CallRecord | None:
        mode = record_mode()
        if mode is RecordMode.OFF:
            return None
        if mode is RecordMode.REDACTED and not redacted:
            request, response = redacted_value(request), redacted_value(response)
        record = call_record(kind, target, request, response, started, seconds)
        self._records.append(record)
        self._link.recorded()
        return record

    def tell_tool_arguments(self, call_id: str, tool: str, delta: str) -> None:
        """Shows watchers the next piece of a tool call's arguments, while the model writes them; may be dropped under
        load."""
        delta = without_surrogates(delta)
        for start in range(0, len(delta), MAX_DELTA_CHARS):
            piece = agent_pb2.ToolArguments(
                call_id=call_id, tool_name=tool, delta=delta[start : start + MAX_DELTA_CHARS]
            )
            self._show(agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, tool_arguments=piece))

    def tell_tool_call(self, call_id: str, tool: str, arguments_json: str) -> None:
        """Shows watchers that a tool is called; may be dropped under load."""
        event = agent_pb2.ToolEvent(call_id=call_id, tool_name=tool, arguments_json=without_surrogates(arguments_json))
        self._show(agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, tool_event=event))

    def tell_tool_result(self, call_id: str, tool: str, result_json: str, *, failed: bool = False) -> None:
        """Shows watchers the result of a tool call; may be dropped under load."""
        result = without_surrogates(result_json)
        event = agent_pb2.ToolEvent(call_id=call_id, tool_name=tool, result_json=result, failed=failed)
        self._show(agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, tool_event=event))

    def _show(self, progress: agent_pb2.Progress) -> None:
        if progress.ByteSize() <= MAX_SHOWN_BYTES:
            self._link.send(session_pb2.AgentFrame(progress=progress))

    def send_usage(self) -> None:
        """Sends the usage so far, if the budget is limited. The server calls it too: progress is lost without a
        stream."""
        if self._budget.limited and self._usage.ListFields():
            spent = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, usage=self._usage)
            self._link.send(session_pb2.AgentFrame(progress=spent))

    def take_records(self) -> list[CallRecord]:
        """Returns the calls recorded since the last time, and forgets them, so that the server does not send them: for
        tests of handlers."""
        return [CallRecord.from_proto(record) for record in self._take_records()]

    def _take_records(self) -> list[agent_pb2.CallRecord]:
        """Returns the calls recorded since the last time, and forgets them."""
        records, self._records = self._records, []
        return records
