"""What a handler sees of its task."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from archon import context
from archon.agent.assigned import Assigned
from archon.agent.budget import UNLIMITED, Granted
from archon.agent.records import call_record
from archon.agent.values import (
    Delegated,
    checked_checkpoint,
)
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import BudgetExhausted, FieldViolation, InvalidArgument
from archon.status import from_failure
from archon.wire import set_seconds, text_of, to_seconds, without_surrogates

MAX_DELTA_CHARS = 16 * 1024
MAX_TOLD_BYTES = 64 * 1024
"""What is larger than that isn't shown as it happens; the record has it."""


class Link(Protocol):
    """The way from a task to its orchestrator."""

    def send(self, frame: session_pb2.AgentFrame) -> None:
        """Something that may be dropped."""
        ...

    def save(self, frame: session_pb2.AgentFrame) -> None:
        """A checkpoint: it isn't lost."""
        ...

    async def delegate(self, asked: session_pb2.Delegate) -> session_pb2.DelegateResult:
        """Hands on, and waits for the answer."""
        ...

    async def reserve(self, wanted: common_pb2.Budget) -> session_pb2.BudgetGrant:
        """Asks for more of the budget, and waits for the answer."""
        ...


class TaskContext(Assigned):
    """One attempt at one task. The plain methods are cheap and never wait; a plain function may call them from its
    thread. The coroutines are for handlers that are coroutines."""

    def __init__(
        self,
        ref: common_pb2.TaskRef,
        assigned: agent_pb2.AssignTask,
        link: Link,
        *,
        role: str = "",
        stateful: bool = False,
    ) -> None:
        super().__init__(ref, assigned, role, stateful=stateful)
        self._link = link
        self._offset = 0
        self._delegations = count(1)
        self._granted = Granted(assigned) if assigned.HasField("budget") else UNLIMITED
        self._records: list[agent_pb2.CallRecord] = []
        self.deadline: float | None = None
        """On the monotonic clock of this process, in seconds; None: no end."""
        self.usage = common_pb2.Usage()
        """What was spent so far; `record_model_call` adds to it."""
        if assigned.HasField("remaining"):
            self.deadline = time.monotonic() + to_seconds(assigned.remaining)

    def save(self, checkpoint: bytes) -> None:
        """Leaves what a later attempt is to go on from, as its `checkpoint`; the last one counts. Opaque to the
        mesh. Does nothing where the orchestrator takes none. Raises FrameTooLarge above 1 MiB, or what it takes."""
        data = checked_checkpoint(checkpoint)
        self._link.save(session_pb2.AgentFrame(checkpoint=session_pb2.Checkpoint(data=data)))

    def remaining(self) -> float | None:
        """Seconds left for this task; None where there is no end."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    async def delegate(
        self,
        input: str | Sequence[common_pb2.Part],
        *,
        role: str = "",
        capability: str = "",
        memo_key: str = "",
        timeout: float | None = None,
        budget: common_pb2.Budget | None = None,
        checkpoint: bytes = b"",
    ) -> Delegated:
        """Has another role, or whoever has a capability, do a part of this task; returns its answer. Several at once
        run in parallel. Cancelling the call cancels the other's work.

        The mesh remembers the answer: a later attempt at this task that delegates the same gets it at once. The same is
        the same `memo_key` or, where that is empty, the same target and input for the n-th time. `timeout` is in
        seconds, 60 where None; `budget` is the most that the other may spend; `checkpoint` is what a later attempt
        finds as `checkpoint`.

        Raises the other role's failure as the error that it was there; UnknownRole, UnknownCapability, DelegationLoop,
        DelegationTooDeep, DelegationTimeout, TooManyDelegations, BudgetExhausted; FrameTooLarge; Unimplemented where
        this caller or orchestrator doesn't take delegations.
        """
        if bool(role) == bool(capability):
            raise InvalidArgument("a delegation names a role or a capability, and not both")
        parts = [common_pb2.Part(text=without_surrogates(input))] if isinstance(input, str) else input
        asked = session_pb2.Delegate(input=parts, memo_key=memo_key, checkpoint=checked_checkpoint(checkpoint))
        asked.delegation_id = f"d{next(self._delegations)}"
        if role:
            asked.role = role
        else:
            asked.capability = capability
        if timeout is not None:
            set_seconds(asked.timeout, max(0.0, timeout))
        if budget is not None:
            asked.budget.CopyFrom(budget)
        if (call := context.current()).traceparent:  # of the span that this is done in, where there are any
            asked.trace.traceparent, asked.trace.tracestate = call.traceparent, call.tracestate
        elif self._assigned.HasField("trace"):
            asked.trace.CopyFrom(self._assigned.trace)
        told = await self._link.delegate(asked)
        result = told.result
        if result.state != common_pb2.TASK_STATE_COMPLETED:
            raise from_failure(result.failure)
        return Delegated(text_of(result.output), result.output, result.usage, told.memoized, dict(result.metadata))

    async def reserve(self, *, tokens: int = 0, cost_micro_usd: int = 0) -> None:
        """To be called before a model is: makes sure that so much of the run's budget is set aside for this attempt,
        beside what it has spent. Raises BudgetExhausted where there is not so much left, InvalidArgument for a negative
        amount. Returns at once where the run has no budget."""
        for name, amount in (("tokens", tokens), ("cost_micro_usd", cost_micro_usd)):
            if amount < 0:
                raise InvalidArgument(
                    f"{name} is {amount}, and must not be negative",
                    field_violations=[FieldViolation(name, "must not be negative")],
                )
        while (wanted := self._granted.lacks(self.usage, tokens, cost_micro_usd)) is not None:
            grant = await self._link.reserve(wanted)
            if not grant.HasField("budget"):
                raise BudgetExhausted("the run's budget has not so much left", metadata={"role": self.role})
            self._granted.add(grant.budget)
        self._granted.promise(tokens, cost_micro_usd)

    def write(self, text: str) -> None:
        """Streams more of the answer's text to whoever watches. It may be dropped under load; the answer is not."""
        text = without_surrogates(text)
        for start in range(0, len(text), MAX_DELTA_CHARS):
            delta = text[start : start + MAX_DELTA_CHARS]
            progress = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, offset=self._offset, text=delta)
            self._offset += len(delta.encode())
            self._link.send(session_pb2.AgentFrame(progress=progress))

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
        self._granted.settle()
        self.tell_usage()
        if _recording():
            self._records.append(call_record(agent_pb2.RECORD_KIND_MODEL, model, request, response, started, seconds))
            self._records[-1].usage.CopyFrom(usage)

    def record_tool_call(self, tool: str, arguments: Any, result: Any, *, started: float, seconds: float) -> None:
        """Records a call of a tool; `arguments` and `result` are JSON values, `started` wall seconds."""
        if _recording():
            self._records.append(call_record(agent_pb2.RECORD_KIND_TOOL, tool, arguments, result, started, seconds))

    def tell_tool_call(self, call_id: str, tool: str, arguments_json: str) -> None:
        """Tells whoever watches that a tool is called; may be dropped under load."""
        called = agent_pb2.ToolEvent(call_id=call_id, tool_name=tool, arguments_json=without_surrogates(arguments_json))
        self._tell(agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, tool_event=called))

    def tell_tool_result(self, call_id: str, tool: str, result_json: str, *, failed: bool = False) -> None:
        """Tells whoever watches what a tool has answered; may be dropped under load."""
        result = without_surrogates(result_json)
        answered = agent_pb2.ToolEvent(call_id=call_id, tool_name=tool, result_json=result, failed=failed)
        self._tell(agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, tool_event=answered))

    def _tell(self, progress: agent_pb2.Progress) -> None:
        if progress.ByteSize() <= MAX_TOLD_BYTES:
            self._link.send(session_pb2.AgentFrame(progress=progress))

    def tell_usage(self) -> None:
        """Says what was spent so far, where that is limited. For the server too: progress is lost without a stream."""
        if self._granted.limited and self.usage.model_calls:
            spent = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, usage=self.usage)
            self._link.send(session_pb2.AgentFrame(progress=spent))

    def take_records(self) -> list[agent_pb2.CallRecord]:
        """What was recorded since the last time. For the server."""
        records, self._records = self._records, []
        return records


def _recording() -> bool:
    return os.environ.get("ARCHON_RECORDS", "full") != "off"
