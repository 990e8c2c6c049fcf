"""The tools that an agent shares, with their leases, their executions and their figures."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from archon import context
from archon.api.tool.v1 import tool_pb2
from archon.call_window import CallWindow
from archon.clock import monotonic
from archon.errors import (
    AlreadyExists,
    ArchonError,
    FieldViolation,
    InvalidArgument,
    LeaseExpired,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from archon.registry import Tool
from archon.telemetry import names, spans
from archon.tools.owner.audit import log_execution, log_lease, log_refused, log_revoked
from archon.tools.owner.execution import Execution, failed
from archon.tools.owner.figures import ToolFigures
from archon.tools.owner.kept_results import KeptResults, Key
from archon.tools.owner.leases import MAX_LEASE_SECONDS, Lease, LeaseTable
from archon.tools.shared_tool import MAX_SECONDS, ArgumentCheck, SharedTool, SharedToolCall
from archon.types.task_ref import TaskRef

CALL_SECONDS: Final = 30.0
"""Seconds of a call if its caller asks for no other time."""

MAX_CALLS: Final = 256
"""Calls of all tools in progress at a time."""

MAX_CALLS_OF_LEASE: Final = 16
"""Calls with one lease in progress at a time."""

MAX_KEY: Final = 256
"""Characters of an idempotency key."""

BUSY_DELAY: Final = 1.0
"""Seconds after which a call that found no place may be made again."""

BEGUN: Final = "begun"
"""The key in the metadata of an error that ended a call which had begun: the tool may have acted."""

ANSWER_MARGIN: Final = 0.1
"""Seconds of the caller's deadline that are kept for the answer to travel."""


class _Shared:
    """A shared tool with its calls."""

    def __init__(self, tool: SharedTool, clock: Callable[[], float]) -> None:
        self.tool = tool
        self.check = ArgumentCheck(tool.tool)
        self.figures = ToolFigures()
        self.window = CallWindow(tool.total_per_minute, clock) if tool.total_per_minute else None
        self.calls = 0
        """Calls whose tool has not returned."""

    @property
    def advertised(self) -> Tool:
        return replace(self.tool.tool, share=self.figures.share(self.tool.max_calls_per_minute))


class ToolOwner:
    """The tools that an agent shares, with their leases and executions."""

    def __init__(self, tools: Iterable[SharedTool] = (), *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._tools: dict[str, _Shared] = {}
        self._leases = LeaseTable(clock)
        self._kept = KeptResults(clock)
        self._executions: set[Execution] = set()
        """Executions whose tool has not returned."""
        self._draining = False
        self.changed = asyncio.Event()
        """Set when a tool is shared or taken back."""
        for tool in tools:
            self.share(tool)

    # For the owner

    def share(self, tool: SharedTool) -> None:
        """Shares a tool from now on. Raises AlreadyExists if one of its name is shared."""
        if tool.name in self._tools:
            raise AlreadyExists(f"a tool {tool.name!r} is shared already")
        self._tools[tool.name] = _Shared(tool, self._clock)
        self.changed.set()

    def revoke(self, tool_name: str) -> int:
        """Takes a tool back at once: it is no longer shared, its leases end, and so do its calls in progress. Returns
        the number of leases that ended. A tool that is not shared is not an error."""
        self._tools.pop(tool_name, None)
        self.changed.set()
        leases = self._leases.of_tool(tool_name)
        for lease in leases:
            self._revoke(lease, "owner")
        for execution in list(self._executions):  # those whose lease has expired meanwhile
            if execution.name == tool_name:
                execution.end(_revoked())
        return len(leases)

    def revoke_lease(self, lease_id: str) -> bool:
        """Ends a lease at once, with its calls in progress. Returns whether it was in force."""
        lease = self._leases.remove(lease_id)
        if lease is not None:
            self._revoke(lease, "owner")
        return lease is not None

    def leases(self) -> list[Lease]:
        """Returns the leases that are in force."""
        self._leases.expire()
        return self._leases.all()

    def seconds_left(self, lease: Lease) -> float:
        """Returns the seconds until a lease ends."""
        return max(0.0, lease.expires_at - self._clock())

    @property
    def advertised(self) -> tuple[Tool, ...]:
        """The tools with their terms and current figures, sorted by name."""
        return tuple(self._tools[name].advertised for name in sorted(self._tools))

    # For the server

    async def wait_changed(self, seconds: float) -> None:
        """Waits until a tool is shared or taken back, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            pass

    @property
    def running(self) -> int:
        """Executions whose outcome is not known yet."""
        return sum(not execution.done for execution in self._executions)

    def drain(self) -> None:
        """Refuses further leases and calls; calls in progress go on."""
        self._draining = True

    async def drained(self, seconds: float) -> None:
        """Waits until no call is in progress, at most `seconds`."""
        waiting = [execution.wait_left(seconds) for execution in self._executions if not execution.done]
        await asyncio.gather(*waiting)

    async def stop(self, seconds: float = 2.0) -> int:
        """Ends all leases and calls with Unavailable. Returns the number of tools that ignore that for `seconds`."""
        self._draining = True
        self._leases.clear()
        for execution in list(self._executions):
            execution.end(Unavailable("the owner of the tool is stopping", metadata={BEGUN: "true"}))
        ended = await asyncio.gather(*(execution.wait_left(seconds) for execution in list(self._executions)))
        return ended.count(False)

    # For the service

    def page(self, after: str, size: int) -> tuple[Sequence[Tool], bool]:
        """Returns the tools whose names follow `after`, at most `size`, and whether there are more."""
        found = sorted(name for name in self._tools if name > after)
        return [self._tools[name].advertised for name in found[:size]], len(found) > size

    def lease(self, tool_name: str, seconds: float, task: TaskRef | None, instance_id: str) -> tuple[Lease, float]:
        """Grants a lease. Returns it and the time of its end, in seconds since the epoch. Raises NotFound,
        InvalidArgument, ResourceExhausted and Unavailable."""
        self._check_open()
        shared = self._shared(tool_name)
        if not seconds > 0:
            raise InvalidArgument(
                "the duration of a lease must be above 0 s",
                field_violations=[FieldViolation("duration", "must be above 0 s")],
            )
        granted = min(seconds, MAX_LEASE_SECONDS)
        lease = self._leases.grant(tool_name, granted, shared.tool.max_calls_per_minute, task, instance_id)
        log_lease(lease, granted)
        return lease, time.time() + granted

    def end_lease(self, lease_id: str) -> None:
        """Ends a lease for its holder; an unknown lease is not an error."""
        if (lease := self._leases.remove(lease_id)) is not None:
            self._revoke(lease, "holder")

    async def execute(
        self, lease_id: str, arguments_json: str, seconds: float | None, key: str
    ) -> AsyncGenerator[str | tool_pb2.ToolResult, None]:
        """Executes a call: yields progress, then the result. Raises LeaseExpired, InvalidArgument, ResourceExhausted,
        RequestIdReused and Unavailable if the call is not executed, and the error that ended it, with `begun` in its
        metadata."""
        self._check_open()
        lease = self._leases.find(lease_id)
        try:
            shared = self._shared(lease.tool_name)
            execution, limit = self._begin(lease, shared, arguments_json, seconds, key)
        except ArchonError as error:
            log_refused(lease, error)
            raise
        if isinstance(execution, tool_pb2.ToolResult):
            yield execution
            return
        async with aclosing(execution.events(limit)) as events:
            async for event in events:
                yield event

    def _begin(
        self, lease: Lease, shared: _Shared, arguments_json: str, seconds: float | None, key: str
    ) -> tuple[Execution | tool_pb2.ToolResult, float]:
        """Returns a new execution, the one in progress with this key, or its result, and the caller's time limit."""
        for window in (lease.window, shared.window):
            if window is not None and (refused := window.refusal(lease.tool_name)) is not None:
                raise refused
        for window in (lease.window, shared.window):
            if window is not None:
                window.take()
        limit = _limit(seconds, shared.tool.timeout)
        if len(key) > MAX_KEY:
            raise InvalidArgument(
                f"the idempotency key has more than {MAX_KEY} characters",
                field_violations=[FieldViolation("idempotency_key", f"must have at most {MAX_KEY} characters")],
            )
        arguments = shared.check.read(arguments_json)
        kept_key = _kept_key(lease, key) if key else None
        digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).digest() if key else b""
        if kept_key is not None and (earlier := self._kept.find(kept_key, digest)) is not None:
            return earlier, limit
        self._check_room(lease, shared)
        execution = Execution(
            lease.tool_name,
            limit,
            ended=lambda execution: self._execution_ended(execution, lease, shared, kept_key),
            left=lambda execution: self._execution_left(execution, lease, shared),
        )
        execution.lease_id = lease.lease_id
        call = SharedToolCall(lease.tool_name, lease.task, lease.instance_id, execution.report, limit, self._clock)
        execution.span = _start_span(lease)
        self._executions.add(execution)
        lease.calls += 1
        shared.calls += 1
        if kept_key is not None:
            self._kept.begin(kept_key, digest, execution)
        execution.start(lambda: shared.tool.execute(arguments, call))
        return execution, limit

    def _execution_ended(self, execution: Execution, lease: Lease, shared: _Shared, key: Key | None) -> None:
        log_execution(lease, execution)
        _end_span(execution)
        result = execution.result
        was_executed = result is None or result.metadata.get("attempts") != "0"
        if result is not None and was_executed:
            shared.figures.count(execution.took, ok=result.status == tool_pb2.TOOL_STATUS_SUCCESS)
        if key is None:
            return
        has_failed = result is None or result.status != tool_pb2.TOOL_STATUS_SUCCESS
        if not was_executed or (has_failed and shared.tool.tool.idempotent):
            self._kept.forget(key)  # a further call does no harm
        else:
            self._kept.keep(key, result if result is not None else _unknown_outcome())

    def _execution_left(self, execution: Execution, lease: Lease, shared: _Shared) -> None:
        self._executions.discard(execution)
        lease.calls -= 1
        shared.calls -= 1

    def _revoke(self, lease: Lease, by: str) -> None:
        self._leases.remove(lease.lease_id)
        log_revoked(lease, by)
        for execution in list(self._executions):
            if execution.lease_id == lease.lease_id:
                execution.end(_revoked())

    def _shared(self, tool_name: str) -> _Shared:
        shared = self._tools.get(tool_name)
        if shared is None:
            raise NotFound(f"this instance shares no tool {tool_name[:80]!r}", metadata={"tool": tool_name[:80]})
        return shared

    def _check_open(self) -> None:
        if self._draining:
            raise Unavailable("the owner of the tool is stopping", reason="DRAINING", metadata={BEGUN: "false"})

    def _check_room(self, lease: Lease, shared: _Shared) -> None:
        for calls, most, whose in (
            (lease.calls, MAX_CALLS_OF_LEASE, "this lease"),
            (shared.calls, shared.tool.max_concurrent, f"tool {lease.tool_name}"),
            (len(self._executions), MAX_CALLS, "the tools of this instance"),
        ):
            if calls >= most:
                raise ResourceExhausted(f"{most} calls of {whose} are in progress", retry_delay=BUSY_DELAY)


def _revoked() -> LeaseExpired:
    """Returns the error of a call whose lease was revoked."""
    return LeaseExpired("the lease of the tool was revoked", metadata={BEGUN: "true"})


def _limit(seconds: float | None, tool_seconds: float) -> float:
    """Returns the time limit of a call: the least that the caller, its deadline and the tool allow."""
    if seconds is not None and not seconds > 0:
        raise InvalidArgument(
            "the timeout of a call must be above 0 s", field_violations=[FieldViolation("timeout", "must be above 0 s")]
        )
    limits = [CALL_SECONDS if seconds is None else seconds, tool_seconds, MAX_SECONDS]
    if (left := context.current().remaining()) is not None:
        limits.append(max(0.0, left - ANSWER_MARGIN))
    return min(limits)


def _kept_key(lease: Lease, key: str) -> Key:
    """Keys belong to a task, whichever of its attempts and leases they come with; without a task, to the lease."""
    if lease.task is not None:
        return lease.tool_name, lease.task.run_id, lease.task.task_id, key
    return lease.tool_name, lease.lease_id, "", key


def _unknown_outcome() -> tool_pb2.ToolResult:
    """Returns the result for a repeated call whose first execution was ended from outside."""
    message = "an earlier call with this idempotency key was ended before its result was known: it may have acted"
    return failed(Unavailable(message)).proto


def _start_span(lease: Lease) -> Any:
    """Makes the call the current one of this asyncio task: its lines in the log and its span belong to the caller's
    task. Returns the span, or None if this process makes none."""
    attributes: dict[str, Any] = {names.OPERATION_NAME: names.EXECUTE_TOOL, names.TOOL_NAME: lease.tool_name}
    if (task := lease.task) is not None:
        context.enter(replace(context.current(), run_id=task.run_id, task_id=task.task_id, attempt=task.attempt))
        attributes |= {names.RUN_ID: task.run_id, names.TASK_ID: task.task_id, names.TASK_ATTEMPT: task.attempt}
    return spans.start_task_span(f"{names.EXECUTE_TOOL} {lease.tool_name}", attributes)


def _end_span(execution: Execution) -> None:
    span = execution.span
    if span is None:
        return
    if execution.error is not None:
        spans.fail(span, execution.error.reason, execution.error.message)
    elif execution.result is not None and execution.result.status != tool_pb2.TOOL_STATUS_SUCCESS:
        spans.fail(span, execution.result.metadata.get("reason") or "UNKNOWN", execution.result.error_message)
    span.end()
