"""The spans of a run, made of its log: `invoke_workflow` for the run, `invoke_agent` for each attempt,
and `decide` for each decision by rule, which has no attempt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from opentelemetry.sdk.trace import Event
from opentelemetry.trace import Link, SpanKind

from archon.api.orchestrator.v1 import run_pb2
from archon.telemetry import names
from archon.telemetry.span_data import SpanData
from archon.telemetry.trace_parent import TraceParent
from archon_mesh.engine.types import Failure
from archon_services.orchestrator.observability.decision_log import DecisionLog, DecisionLogs
from archon_services.orchestrator.observability.run_log import STATE_NAMES, AttemptLog, Note, RunLog
from archon_services.orchestrator.observability.span_ids import attempt_span_id, decision_span_id, run_span_id

_MAX_MESSAGE: Final = 1024
_FAILED: Final = frozenset({"failed", "rejected", "canceled", "retried", "lost"})


def spans_of(log: RunLog) -> Iterator[SpanData]:
    """Yields the spans of a run that has ended and is traced: its attempts, its decisions, then the run."""
    submission = log.submission
    assert submission is not None
    assert isinstance(submission.goal, run_pb2.Submitted)
    parent = TraceParent.parse(submission.goal.trace.traceparent)
    if parent is None:
        return
    trace = _Trace(log, submission.run_id, parent, submission.goal.trace.tracestate)
    earlier: dict[str, AttemptLog] = {}
    for attempt in log.attempts:
        yield trace.attempt(attempt, earlier.get(attempt.task_id))
        earlier[attempt.task_id] = attempt
    if log.decisions is not None:
        for decision in log.decisions.made.values():
            yield trace.decision(decision, log.decisions)
    yield trace.run()


class _Trace:
    def __init__(self, log: RunLog, run_id: str, parent: TraceParent, tracestate: str) -> None:
        self._log, self._run_id, self._parent, self._tracestate = log, run_id, parent, tracestate
        self._run_span_id = run_span_id(run_id)
        self._attempts: dict[str, list[AttemptLog]] | None = None
        """The attempts of each task, of a run with decisions."""

    def run(self) -> SpanData:
        log, submission = self._log, self._log.submission
        assert submission is not None
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.INVOKE_WORKFLOW,
            names.WORKFLOW_NAME: submission.strategy,
            names.RUN_ID: self._run_id,
            names.RUN_STATE: STATE_NAMES[log.state],
            names.TENANT: submission.tenant,
            names.INPUT_TOKENS: sum(attempt.input_tokens for attempt in log.attempts),
            names.OUTPUT_TOKENS: sum(attempt.output_tokens for attempt in log.attempts),
        }
        if cost := sum(attempt.cost_micro_usd for attempt in log.attempts):
            attributes[names.COST] = cost / 1e6
        if cached := sum(attempt.cached_tokens for attempt in log.attempts):
            attributes[names.CACHED_TOKENS] = cached
        if submission.session_id:
            attributes[names.CONVERSATION_ID] = submission.session_id
        span = self._span(
            f"{names.INVOKE_WORKFLOW} {submission.strategy}",
            SpanKind.INTERNAL,
            self._run_span_id,
            "" if self._parent.span_id == self._run_span_id else self._parent.span_id,
            attributes,
            (log.start, log.end),
            log.failure,
        )
        span.remote_parent = bool(span.parent_id)
        if log.notes:
            span.events = [Event(note.name, _about(note), _ns(note.time)) for note in log.notes]
        return span

    def attempt(self, attempt: AttemptLog, before: AttemptLog | None) -> SpanData:
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
        span = self._span(
            f"{names.INVOKE_AGENT} {attempt.role}",
            SpanKind.CLIENT,
            attempt_span_id(self._run_id, attempt.task_id, attempt.attempt),
            self._parent_of(attempt),
            attributes,
            (attempt.start, attempt.end or self._log.end),
            attempt.failure if attempt.state in _FAILED else None,
        )
        if before is not None:
            earlier = span.context_of(attempt_span_id(self._run_id, before.task_id, before.attempt))
            span.links = (Link(earlier, {names.LINK: before.state}),)
        decisions = self._log.decisions
        if decisions is not None and (step_id := decisions.steps.get(attempt.task_id)):
            attributes[names.STEP_ID] = step_id
            if attempt.task_id in decisions.sources:  # the rule has left the decision to the role
                span.links = (*span.links, *self._sources(span, attempt.task_id, attempt.start, decisions))
        return span

    def decision(self, decision: DecisionLog, decisions: DecisionLogs) -> SpanData:
        """The span of a decision by rule: from the end of the last result that it had to wait for."""
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.DECIDE,
            names.RUN_ID: self._run_id,
            names.TASK_ID: decision.task_id,
            names.STEP_ID: decisions.steps[decision.task_id],
            names.DECISION_RULE: decision.rule,
        }
        texts = {
            names.DECISION_WINNER: decision.winner,
            names.DECISION_REASON: decision.reason[:_MAX_MESSAGE],
            names.DECISION_CONFLICT: decision.conflict[:_MAX_MESSAGE],
        }
        attributes |= {name: text for name, text in texts.items() if text}
        ends = [each.end for each in self._last_attempts(decision.task_id, decision.time, decisions) if each.end]
        start = max((end for end in ends if end <= decision.time), default=decision.time)
        span = self._span(
            f"{names.DECIDE} {decision.rule}",
            SpanKind.INTERNAL,
            decision_span_id(self._run_id, decision.task_id),
            self._run_span_id,
            attributes,
            (start, decision.time),
            decision.failure,
        )
        span.links = tuple(self._sources(span, decision.task_id, decision.time, decisions, decision.winner))
        return span

    def _sources(
        self, span: SpanData, task_id: str, time: float, decisions: DecisionLogs, winner: str = ""
    ) -> Iterator[Link]:
        """Yields a link to the last attempt of each task that a decision at `time` chooses from."""
        for source in self._last_attempts(task_id, time, decisions):
            about: dict[str, Any] = {names.LINK: source.state if source.end <= time else "working"}
            if winner and decisions.steps.get(source.task_id) == winner:
                about[names.DECISION_CHOSEN] = True
            yield Link(span.context_of(attempt_span_id(self._run_id, source.task_id, source.attempt)), about)

    def _last_attempts(self, task_id: str, time: float, decisions: DecisionLogs) -> list[AttemptLog]:
        """Returns the last attempt before `time` of each task that a decision chooses from; a task without one has
        none."""
        if self._attempts is None:
            self._attempts = defaultdict(list)
            for attempt in self._log.attempts:
                self._attempts[attempt.task_id].append(attempt)
        before = ([each for each in self._attempts[id_] if each.start <= time] for id_ in decisions.sources[task_id])
        return [attempts[-1] for attempts in before if attempts]

    def _parent_of(self, attempt: AttemptLog) -> str:
        """The span in which a task was delegated, or the span of the delegating attempt, or of the run."""
        caller = self._log.callers.get(attempt.task_id)
        if caller is None:
            return self._run_span_id
        task_id, number, traceparent = caller
        sent = TraceParent.parse(traceparent)
        if sent is not None and sent.trace_id == self._parent.trace_id and sent.sampled:
            return sent.span_id
        return attempt_span_id(self._run_id, task_id, number)

    def _span(
        self,
        name: str,
        kind: SpanKind,
        span_id: str,
        parent_id: str,
        attributes: dict[str, Any],
        times: tuple[float, float],
        failure: Failure | None,
    ) -> SpanData:
        error = None
        if failure is not None:
            attributes[names.ERROR_TYPE] = failure.reason or "_OTHER"
            error = failure.message[:_MAX_MESSAGE]
        start, end = _ns(times[0]), _ns(max(times))
        trace_id = self._parent.trace_id
        return SpanData(name, trace_id, span_id, parent_id, kind, start, end, attributes, self._tracestate, error)


def _about(note: Note) -> dict[str, str]:
    if not note.about:
        return {}
    return {names.OWNER if note.name == names.TAKEN_OVER else names.TASK_ID: note.about}


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
