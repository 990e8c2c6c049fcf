"""The trace of a run, as it is journaled with the submission, and the parents of its agents' spans."""

from __future__ import annotations

from archon import context
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.telemetry import export, names
from archon.telemetry.trace_parent import TraceParent
from archon_mesh.core.run import RunState, Task
from archon_services.orchestrator.tracing.span_ids import attempt_span_id, run_span_id, trace_id


def begin_trace(goal: run_pb2.Submitted, run_id: str, given: common_pb2.TraceContext | None = None) -> None:
    """Sets the trace of a new run: `given`, if the request has one, else that of the current call, else a new one.
    Decides whether the run is traced."""
    if given is not None:
        goal.trace.CopyFrom(given)
    elif (current := context.trace())[0]:
        goal.trace.traceparent, goal.trace.tracestate = current
    active = export.current()
    if active is None:
        return
    parent = TraceParent.parse(goal.trace.traceparent)
    goal.traced = _is_sampled(active, parent, run_id, goal.trace.tracestate)
    if parent is None:
        goal.trace.traceparent = str(TraceParent(trace_id(run_id), run_span_id(run_id), goal.traced))
    elif parent.sampled != goal.traced:
        goal.trace.traceparent = str(parent._replace(sampled=goal.traced))


def attempt_trace(run: RunState, task: Task) -> common_pb2.TraceContext | None:
    """Returns the parent of the span of a task's current attempt, for its agent: the attempt's span in the
    orchestrator, or, if the run is not traced, what its caller or the delegating agent sent."""
    submission = run.submission
    submitted = submission.goal if submission is not None else None
    if submission is None or not isinstance(submitted, run_pb2.Submitted):
        return None
    trace = submitted.trace if submitted.HasField("trace") else None
    if submitted.traced and trace is not None and (parent := TraceParent.parse(trace.traceparent)) is not None:
        span_id = attempt_span_id(submission.run_id, task.task_id, task.attempt)
        header = str(TraceParent(parent.trace_id, span_id, sampled=True))
        return common_pb2.TraceContext(traceparent=header, tracestate=trace.tracestate)
    delegated = task.payload_in if isinstance(task.payload_in, run_pb2.Delegated) else None
    if delegated is not None and delegated.HasField("trace"):
        return delegated.trace
    return trace


def _is_sampled(active: export.Export, parent: TraceParent | None, run_id: str, tracestate: str) -> bool:
    """Asks the sampler that OTEL_TRACES_SAMPLER names."""
    from opentelemetry.sdk.trace.sampling import Decision
    from opentelemetry.trace import SpanKind

    from archon.telemetry.spans import remote_context

    number = int(parent.trace_id if parent is not None else trace_id(run_id), 16)
    around = remote_context(parent, tracestate) if parent is not None else None
    attributes = {names.OPERATION_NAME: names.INVOKE_WORKFLOW, names.RUN_ID: run_id}
    sampled = active.provider.sampler.should_sample(
        around, number, names.INVOKE_WORKFLOW, SpanKind.INTERNAL, attributes, ()
    )
    return sampled.decision is Decision.RECORD_AND_SAMPLE
