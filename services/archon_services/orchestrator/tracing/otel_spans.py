"""The log of a run as OpenTelemetry's spans: `invoke_workflow` for the run, `invoke_agent` for each attempt."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from archon.api.orchestrator.v1 import run_pb2
from archon.telemetry import names
from archon.telemetry.trace_parent import TraceParent
from archon_mesh.core.run.types import Failure
from archon_services.orchestrator.tracing.run_log import AttemptLog, Note, RunLog
from archon_services.orchestrator.tracing.span_ids import attempt_span_id, run_span_id

_SCOPE: Final = InstrumentationScope(names.SCOPE)
_FLAGS: Final = TraceFlags(TraceFlags.SAMPLED)
_OK: Final = Status(StatusCode.UNSET)
_MAX_MESSAGE: Final = 1024
_FAILED: Final = frozenset({"failed", "rejected", "canceled", "retried", "lost"})


def spans_of(log: RunLog, resource: Resource) -> Iterator[ReadableSpan]:
    """Yields the spans of a run that has ended and is traced: its attempts, then the run itself."""
    submission = log.submission
    assert submission is not None
    assert isinstance(submission.goal, run_pb2.Submitted)
    parent = TraceParent.parse(submission.goal.trace.traceparent)
    if parent is None:
        return
    trace = _Trace(log, submission.run_id, parent, submission.goal.trace.tracestate, resource)
    earlier: dict[str, AttemptLog] = {}
    for attempt in log.attempts:
        yield trace.attempt(attempt, earlier.get(attempt.task_id))
        earlier[attempt.task_id] = attempt
    yield trace.run()


class _Trace:
    def __init__(self, log: RunLog, run_id: str, parent: TraceParent, tracestate: str, resource: Resource) -> None:
        self._log, self._run_id, self._parent, self._resource = log, run_id, parent, resource
        self._trace_id = int(parent.trace_id, 16)
        self._state = _trace_state(tracestate)
        self._run_span_id = run_span_id(run_id)

    def run(self) -> ReadableSpan:
        log, submission = self._log, self._log.submission
        assert submission is not None
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.INVOKE_WORKFLOW,
            names.WORKFLOW_NAME: submission.strategy,
            names.RUN_ID: self._run_id,
            names.RUN_STATE: log.state.name.lower(),
            names.TENANT: submission.tenant,
            names.INPUT_TOKENS: sum(attempt.input_tokens for attempt in log.attempts),
            names.OUTPUT_TOKENS: sum(attempt.output_tokens for attempt in log.attempts),
        }
        if cost := sum(attempt.cost_micro_usd for attempt in log.attempts):
            attributes[names.COST] = cost / 1e6
        if submission.session_id:
            attributes[names.CONVERSATION_ID] = submission.session_id
        parent_id = "" if self._parent.span_id == self._run_span_id else self._parent.span_id
        events = [Event(note.name, _about(note), _ns(note.time)) for note in log.notes]
        return self._span(
            f"{names.INVOKE_WORKFLOW} {submission.strategy}",
            SpanKind.INTERNAL,
            self._run_span_id,
            parent_id,
            attributes,
            (log.start, log.end),
            _status(attributes, log.failure),
            events=events,
        )

    def attempt(self, attempt: AttemptLog, before: AttemptLog | None) -> ReadableSpan:
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.AGENT_NAME: attempt.role,
            names.RUN_ID: self._run_id,
            names.TASK_ID: attempt.task_id,
            names.TASK_ATTEMPT: attempt.attempt,
            names.TASK_STATE: attempt.state,
            names.INSTANCE_ID: attempt.instance_id,
            names.OWNER: attempt.owner,
        }
        links: tuple[Link, ...] = ()
        if before is not None:
            earlier = self._context(attempt_span_id(self._run_id, before.task_id, before.attempt))
            links = (Link(earlier, {names.LINK: before.state}),)
        failure = attempt.failure if attempt.state in _FAILED else None
        return self._span(
            f"{names.INVOKE_AGENT} {attempt.role}",
            SpanKind.CLIENT,
            attempt_span_id(self._run_id, attempt.task_id, attempt.attempt),
            self._parent_of(attempt),
            attributes,
            (attempt.start, attempt.end or self._log.end),
            _status(attributes, failure),
            links=links,
        )

    def _parent_of(self, attempt: AttemptLog) -> str:
        """The span in which a task was delegated, or that of the attempt that delegated it, or that of the run."""
        caller = self._log.callers.get(attempt.task_id)
        if caller is None:
            return self._run_span_id
        task_id, number, traceparent = caller
        sent = TraceParent.parse(traceparent)
        if sent is not None and sent.trace_id == self._parent.trace_id and sent.sampled:
            return sent.span_id
        return attempt_span_id(self._run_id, task_id, number)

    def _context(self, span_id: str) -> SpanContext:
        return SpanContext(self._trace_id, int(span_id, 16), False, _FLAGS, self._state)

    def _span(
        self,
        name: str,
        kind: SpanKind,
        span_id: str,
        parent_id: str,
        attributes: dict[str, Any],
        times: tuple[float, float],
        status: Status,
        *,
        events: list[Event] | tuple[()] = (),
        links: tuple[Link, ...] = (),
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            self._context(span_id),
            self._context(parent_id) if parent_id else None,
            self._resource,
            attributes,
            events,
            links,
            kind,
            None,
            status,
            _ns(times[0]),
            _ns(max(times)),
            _SCOPE,
        )


def _status(attributes: dict[str, Any], failure: Failure | None) -> Status:
    if failure is None:
        return _OK
    attributes[names.ERROR_TYPE] = failure.reason or "_OTHER"
    return Status(StatusCode.ERROR, failure.message[:_MAX_MESSAGE])


def _about(note: Note) -> dict[str, str]:
    if not note.about:
        return {}
    return {names.OWNER if note.name == names.TAKEN_OVER else names.TASK_ID: note.about}


@lru_cache(maxsize=64)
def _trace_state(header: str) -> TraceState:
    return TraceState.from_header([header]) if header else TraceState()


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
