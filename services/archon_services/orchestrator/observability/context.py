"""The trace of a run, as it is journaled with the submission, and the parents of its agents' spans."""

from __future__ import annotations

from archon import context
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.telemetry import export, names
from archon.telemetry.trace_parent import TraceParent
from archon_mesh.engine import RunState, Task
from archon_services.orchestrator.observability.span_ids import attempt_span_id, run_span_id, trace_id


def begin_trace(goal: run_pb2.Submitted, run_id: str, given: common_pb2.TraceContext | None = None) -> None:
    """Sets the trace of a new run: `given`, if the request has one, else the caller's, else a new one. Decides whether
    the run is traced. The parent is not the span of the call: that span is lost if this process dies."""
    call = context.current()
    if given is not None:
        goal.trace.CopyFrom(given)
    elif call.traceparent:
        goal.trace.traceparent, goal.trace.tracestate = call.traceparent, call.tracestate
    active = export.current()
    if active is None:
        return
    parent = TraceParent.parse(goal.trace.traceparent)
    # While exports fail, a run is not worth the cost of its trace.
    goal.traced = _is_sampled(active, parent, run_id, goal.trace.tracestate) and active.queue.has_room()
    if parent is None:
        goal.trace.traceparent = str(TraceParent(trace_id(run_id), run_span_id(run_id), goal.traced))
    elif parent.sampled != goal.traced:
        goal.trace.traceparent = str(parent._replace(sampled=goal.traced))


def write_submitter(goal: run_pb2.Submitted) -> None:
    """Writes on whose behalf a new run is submitted, and by whom, if the mesh knows identities."""
    call = context.current()
    if call.identity != context.ANONYMOUS:
        goal.identity, goal.actor = call.identity, call.actor


def write_attempt_trace(run: RunState, task: Task, assigned: agent_pb2.AssignTask) -> None:
    """Writes the parent of the span of a task's current attempt, for its agent: the attempt's span in the orchestrator,
    or, if the run is not traced, the parent that its caller or the delegating agent sent."""
    submitted = run.submission.goal if run.submission is not None else None
    if not isinstance(submitted, run_pb2.Submitted):
        return
    if submitted.traced:
        assigned.trace.traceparent = _attempt_header(run, task, submitted)
        if submitted.trace.tracestate:
            assigned.trace.tracestate = submitted.trace.tracestate
        return
    delegated = task.payload_in if isinstance(task.payload_in, run_pb2.Delegated) else None
    if delegated is not None and delegated.HasField("trace"):
        assigned.trace.CopyFrom(delegated.trace)
    elif submitted.HasField("trace"):
        assigned.trace.CopyFrom(submitted.trace)


def calls_for(run: RunState, task: Task) -> context.CallContext:
    """Returns the context of calls that the orchestrator makes for a task: below the span of its current attempt, if
    the run is traced."""
    submitted = run.submission.goal if run.submission is not None else None
    if not isinstance(submitted, run_pb2.Submitted) or not submitted.traced:
        return context.CallContext()
    return context.CallContext(traceparent=_attempt_header(run, task, submitted), tracestate=submitted.trace.tracestate)


def _attempt_header(run: RunState, task: Task, submitted: run_pb2.Submitted) -> str:
    assert run.submission is not None
    trace = submitted.trace.traceparent[3:35]  # valid, or the run would not be traced
    return f"00-{trace}-{attempt_span_id(run.submission.run_id, task.task_id, task.attempt)}-01"


def _is_sampled(active: export.Export, parent: TraceParent | None, run_id: str, tracestate: str) -> bool:
    """Asks the sampler that OTEL_TRACES_SAMPLER names."""
    from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Decision
    from opentelemetry.trace import SpanKind

    from archon.telemetry.spans import remote_context

    if active.provider.sampler is DEFAULT_ON:  # saves half of the cost of a new trace
        return parent is None or parent.sampled

    number = int(parent.trace_id if parent is not None else trace_id(run_id), 16)
    around = remote_context(parent, tracestate) if parent is not None else None
    attributes = {names.OPERATION_NAME: names.INVOKE_WORKFLOW, names.RUN_ID: run_id}
    sampled = active.provider.sampler.should_sample(
        around, number, names.INVOKE_WORKFLOW, SpanKind.INTERNAL, attributes, ()
    )
    return sampled.decision is Decision.RECORD_AND_SAMPLE
