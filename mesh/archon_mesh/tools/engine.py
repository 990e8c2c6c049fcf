"""Executes tool calls, in this order: look up, validate, check the permission, ask the cache, circuit breaker and rate
(or the alternative), credentials, quota, attempts with retries. docs/tools.md describes each step."""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from archon.call_window import CallWindow
from archon.clock import monotonic
from archon.errors import ArchonError
from archon.failure_kinds import TOOL_CRASH, TOOL_TIMEOUT
from archon.telemetry import metrics
from archon_mesh.call_log import CANCELLED, FAILED, OK, log_tool_call
from archon_mesh.tools.arguments import read_arguments
from archon_mesh.tools.breaker import CircuitBreaker
from archon_mesh.tools.cache import CacheKey, ResultCache
from archon_mesh.tools.credentials import Ask, Credentials, Secret, Source
from archon_mesh.tools.errors import UnknownTool
from archon_mesh.tools.execution import execute
from archon_mesh.tools.failures import (
    failed,
    failure_metadata,
    failure_of,
    failure_of_kind,
    has_failure_metadata,
    reason_of,
)
from archon_mesh.tools.health import HealthRecord, ToolHealth
from archon_mesh.tools.measuring import record_call, watch_breaker
from archon_mesh.tools.media_types import check_input
from archon_mesh.tools.permissions import ToolPermissions
from archon_mesh.tools.quota import EngineQuota
from archon_mesh.tools.registry import SEPARATOR, Registration, ToolRegistry
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus
from archon_mesh.tools.retries import Retries, retries_of
from archon_mesh.tools.tool import Tool

_log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0
"""Seconds of an attempt if neither the caller nor the tool sets a timeout."""

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


class _ToolState:
    """The engine's state of a tool beyond one call. Computed once, so that a call only reads it."""

    def __init__(self, registration: Registration, timeout: float, clock: Clock) -> None:
        self.name, self.tool = registration.name, registration.tool
        self.seconds = self.tool.timeout or timeout
        self.is_supervised = math.isfinite(self.seconds)
        self.retries = retries_of(self.tool)
        self.is_repeatable = self.tool.idempotent or self.retries > 0
        self.breaker = CircuitBreaker(clock)
        self.window = CallWindow(self.tool.rate, clock) if self.tool.rate is not None else None
        self.health = HealthRecord(clock)

    def refusal(self) -> ArchonError | None:
        """Returns the error for a call that may not start now, or None."""
        refused = self.breaker.refusal(self.name) if self.is_supervised else None
        if refused is None and self.window is not None:
            return self.window.refusal(self.name)
        return refused


@dataclass(slots=True)
class _Call:
    """One call, and its measurements."""

    state: _ToolState
    arguments: Mapping[str, Any] | str | None
    timeout_seconds: float | None
    agent_state: object
    session_id: str
    alternative_to: str = ""
    deadline: float = math.inf
    kwargs: dict[str, Any] = field(default_factory=dict)
    cache_key: CacheKey | None = None
    attempts: int = 0
    seconds: float = 0.0
    validation_seconds: float = 0.0
    is_cached: bool = False
    alternative: _Call | None = None


class ToolExecutionEngine:
    """Executes the tools of a registry.

    `timeout` is in seconds, for tools without a timeout of their own; `quota` in calls per minute of all tools.
    `credentials` are the values that tools declare by name; `ask_credential` asks a person for a missing one.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        timeout: float = TIMEOUT,
        permissions: ToolPermissions | Mapping[str, object] | None = None,
        quota: int | None = None,
        credentials: Source | None = None,
        ask_credential: Ask | None = None,
        clock: Clock = monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """Raises InvalidArgument if the quota is out of range."""
        self.registry = registry
        self._timeout = timeout
        self._permissions = ToolPermissions.of(permissions)
        self._quota = EngineQuota(quota, clock, sleep) if quota is not None else None
        self._credentials = Credentials(credentials, ask_credential)
        self._cache = ResultCache(clock)
        self._states: WeakKeyDictionary[Registration, _ToolState] = WeakKeyDictionary()
        self._clock = clock
        self._sleep = sleep
        self._random = random

    def for_registry(self, registry: ToolRegistry) -> ToolExecutionEngine:
        """Returns an engine for a copy of the registry. Both share the quota, the cache, and the state of each tool."""
        engine = copy.copy(self)
        engine.registry = registry
        return engine

    def asking(self, ask: Ask) -> ToolExecutionEngine:
        """Returns an engine that asks by `ask` for missing credentials. The answers and the results that they give are
        known to it alone; the quota and the state of each tool are shared."""
        engine = copy.copy(self)
        engine._credentials = self._credentials.asking(ask)
        engine._cache = ResultCache(self._clock)
        return engine

    def health(self) -> dict[str, ToolHealth]:
        """Returns the health of each registered tool by name."""
        return {
            each.name: self._state_of(each).health.snapshot(self._state_of(each).breaker.state)
            for each in self.registry.registrations
        }

    async def execute_tool_call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | str | None = None,
        timeout_seconds: float | None = None,
        *,
        agent_state: object = None,
        session_id: str = "",
    ) -> ToolResult:
        """Returns the result of a call. Never raises, except if the caller is cancelled.

        `arguments` is a mapping, or a JSON object as text. `timeout_seconds` limits the whole call, retries included;
        without it, each attempt has the limit of the tool.
        """
        outcome = await self.run(tool_name, arguments, timeout_seconds, agent_state=agent_state, session_id=session_id)
        return outcome.result

    async def run(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | str | None = None,
        timeout_seconds: float | None = None,
        *,
        agent_state: object = None,
        session_id: str = "",
    ) -> ToolOutcome:
        """Returns the result of a call together with the exception behind it, for code of the same process. Never
        raises, except if the caller is cancelled."""
        registration = self.registry.find(tool_name)
        if registration is None:
            return self.refused(tool_name, UnknownTool(tool_name, self.registry.names))
        call = _Call(self._state_of(registration), arguments, timeout_seconds, agent_state, session_id)
        started = self._clock()
        if timeout_seconds is not None:
            call.deadline = started + timeout_seconds
        try:
            self._prepare(call)
            outcome = await self._answer(call)
        except ArchonError as error:
            outcome = failed(error)
        except asyncio.CancelledError:
            _log_call(call, self._clock() - started, CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001 - a tool's validation may raise anything
            _log.warning("tool %s cannot be called", call.state.name, exc_info=error)
            outcome = failed(error)
        if (recorder := metrics.recorder()) is not None:
            answered = call.alternative or call
            record_call(
                recorder, answered.state.name, outcome.result, answered.seconds, answered.attempts, answered.is_cached
            )
        described = _described(outcome, call)
        _log_call(call, self._clock() - started, OK if described.result.ok else FAILED, described.result.metadata)
        return described

    def check_permission(self, name: str, tool: Tool, session_id: str = "") -> None:
        """Raises PermissionDenied if a tool may not be called under a name."""
        self._permissions.check(name, dangerous=tool.dangerous, session_id=session_id)

    def refused(self, tool_name: str, error: ArchonError) -> ToolOutcome:
        """Returns the outcome of a call that was not made, because of an error."""
        registration = self.registry.find(tool_name)
        name, version = (registration.name, registration.tool.version) if registration else (tool_name, "")
        return _with_metadata(failed(error), {"tool_name": name, "tool_version": version, **_NOT_EXECUTED})

    def _state_of(self, registration: Registration) -> _ToolState:
        state = self._states.get(registration)
        if state is None:
            state = self._states[registration] = _ToolState(registration, self._timeout, self._clock)
            if (recorder := metrics.recorder()) is not None and state.is_supervised:
                watch_breaker(recorder, state.name, state.breaker)
        return state

    def _prepare(self, call: _Call) -> None:
        """Validates the arguments and checks the permission. Raises InvalidArgument and PermissionDenied."""
        tool, name = call.state.tool, call.state.name
        started = self._clock()
        try:
            call.arguments, text = read_arguments(call.arguments, name, tool.max_input_bytes)
            call.kwargs = tool.convert_args(call.arguments)
            if tool.accepts:
                check_input(name, tool.accepts, call.kwargs)
        finally:
            call.validation_seconds = self._clock() - started
        self._permissions.check(name, dangerous=tool.dangerous, session_id=call.session_id)
        if tool.cache_seconds > 0 and text is not None:
            call.cache_key = (call.state, tool.version, text)

    async def _answer(self, call: _Call) -> ToolOutcome:
        """Answers a prepared call: from the cache, by the alternative, or by the tool. Raises errors that say why the
        tool was not called."""
        state = call.state
        if call.cache_key is not None and (cached := self._cache.get(call.cache_key)) is not None:
            call.is_cached = True
            state.health.cached += 1
            return ToolOutcome(ToolResult(cached[0]))
        refused = state.refusal()
        if refused is not None or state.health.is_slow:
            alternative = self._alternative(call)
            if alternative is not None:
                return await self._answer(alternative)
        if refused is not None:
            raise refused
        outcome = await self._supervised(call) if state.is_supervised else await self._called(call)
        if outcome.error is None or not state.is_supervised:
            return outcome
        if outcome.result.status is ToolResultStatus.TIMEOUT:
            state.health.mark_slow()
        # A call that may have acted is not made a second time, by no other tool either.
        may_repeat = state.is_repeatable and failure_of(outcome.error).is_outage
        alternative = self._alternative(call) if may_repeat and self._clock() < call.deadline else None
        return await self._answer_instead(alternative, call, outcome) if alternative is not None else outcome

    async def _answer_instead(self, alternative: _Call, call: _Call, failure: ToolOutcome) -> ToolOutcome:
        """Returns the answer of the alternative, or the failure of the tool if the alternative has none either."""
        try:
            outcome = await self._answer(alternative)
        except ArchonError as error:
            outcome = failed(error)
        if outcome.result.ok:
            return outcome
        _log.info(
            "tool %s has no answer in place of %s: %s", alternative.state.name, call.state.name, outcome.result.text
        )
        call.alternative = None
        return failure

    def _alternative(self, call: _Call) -> _Call | None:
        """Returns the same call of the tool's alternative, or None if there is none that may answer it now."""
        name = call.state.tool.alternative
        if not name or call.alternative_to:
            return None
        namespace = call.state.name.rpartition(SEPARATOR)[0]
        registration = self.registry.find(f"{namespace}{SEPARATOR}{name}") if namespace else None
        registration = registration or self.registry.find(name)
        if registration is None:
            return None
        state = self._state_of(registration)
        alternative = _Call(
            state,
            call.arguments,
            call.timeout_seconds,
            call.agent_state,
            call.session_id,
            call.state.name,
            call.deadline,
        )
        try:
            self._prepare(alternative)
        except Exception as error:  # noqa: BLE001 - a tool's validation may raise anything
            _log.info("tool %s cannot answer in place of %s: %s", state.name, call.state.name, error)
            return None
        if state.refusal() is not None:
            return None
        call.alternative = alternative
        return alternative

    async def _supervised(self, call: _Call) -> ToolOutcome:
        """Calls the tool and tells its circuit breaker how that ended."""
        breaker = call.state.breaker
        is_probe = breaker.enter()
        outcome: ToolOutcome | None = None
        try:
            outcome = await self._called(call, may_retry=not is_probe)
            return outcome
        finally:
            if outcome is None:
                breaker.left(is_probe=is_probe)
            elif outcome.error is not None and failure_of(outcome.error).is_outage:
                breaker.failed(is_probe=is_probe)
            else:
                breaker.succeeded(is_probe=is_probe)

    async def _called(self, call: _Call, *, may_retry: bool = True) -> ToolOutcome:
        state, tool = call.state, call.state.tool
        if state.window is not None:
            state.window.take()
        secrets: Mapping[str, Secret] = {}
        if tool.credentials:
            started = self._clock()
            secrets = await self._credentials.of(state.name, tool.credentials)
            call.deadline += self._clock() - started  # a person's time is not the tool's
            call.kwargs |= secrets
        if tool.wants_state:
            call.kwargs["agent_state"] = call.agent_state
        if tool.wants_engine:
            nested = {"engine": self, "session_id": call.session_id, "agent_state": call.agent_state}
            call.kwargs = {**call.kwargs, **nested}
        seconds = state.seconds if call.timeout_seconds is None else call.timeout_seconds
        if self._quota is not None and state.is_supervised:
            await self._quota.take(critical=tool.critical, seconds=seconds)
        retries = Retries(state.retries if may_retry else 0, seconds, self._random)
        outcome = await self._attempts(call, retries, secrets)
        timed_out = outcome.result.status is ToolResultStatus.TIMEOUT
        state.health.count(call.seconds, ok=outcome.result.ok, timed_out=timed_out)
        return outcome

    async def _attempts(self, call: _Call, retries: Retries, secrets: Mapping[str, Secret]) -> ToolOutcome:
        state = call.state
        while True:
            call.attempts += 1
            started = self._clock()
            seconds = max(0.0, min(retries.seconds, call.deadline - started))
            outcome, size = await execute(state.tool, state.name, call.kwargs, seconds, secrets.values())
            call.seconds += self._clock() - started
            if outcome.error is None:
                if outcome.result.ok and call.cache_key is not None:
                    self._cache.put(call.cache_key, outcome.result.content, size, state.tool.cache_seconds)
                return outcome
            pause = retries.pause_after(failure_of(outcome.error), outcome.result.status)
            if pause is None or self._clock() + pause >= call.deadline:
                return outcome
            await self._sleep(pause)
            if state.window is not None and not state.window.take():
                return outcome


_NOT_EXECUTED: Final = {"execution_time_ms": 0.0, "validation_time_ms": 0.0, "attempts": 0}


def _log_call(call: _Call, seconds: float, outcome: str, metadata: Mapping[str, Any] | None = None) -> None:
    name = (call.alternative or call).state.name
    agent = getattr(call.agent_state, "agent_name", "")
    log_tool_call(
        name,
        seconds,
        agent=agent,
        outcome=outcome,
        reason=reason_of(metadata) if metadata and outcome == FAILED else "",
    )


def _described(outcome: ToolOutcome, call: _Call) -> ToolOutcome:
    """Adds to the metadata of the result which tool answered, and its times and attempts."""
    answered = call.alternative or call
    metadata: dict[str, Any] = {
        "tool_name": answered.state.name,
        "tool_version": answered.state.tool.version,
        "execution_time_ms": round(answered.seconds * 1000, 3),
        "validation_time_ms": round(answered.validation_seconds * 1000, 3),
        "attempts": answered.attempts,
    }
    if answered.alternative_to:
        metadata["alternative_to"] = answered.alternative_to
    if answered.is_cached:
        metadata["cached"] = True
    return _with_metadata(outcome, metadata)


def _with_metadata(outcome: ToolOutcome, added: Mapping[str, Any]) -> ToolOutcome:
    result = outcome.result
    metadata = dict(result.metadata)
    if not result.ok and not has_failure_metadata(metadata):
        # The tool itself returned an error.
        kind = TOOL_TIMEOUT if result.status is ToolResultStatus.TIMEOUT else TOOL_CRASH
        metadata |= failure_metadata(failure_of_kind(kind))
    metadata.update(added)
    described = ToolResult(result.content, result.status, result.error_message, metadata)
    return ToolOutcome(described, outcome.error)
