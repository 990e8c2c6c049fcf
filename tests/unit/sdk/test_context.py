"""Deadlines and identities of nested calls."""

from __future__ import annotations

import subprocess
import sys

from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from archon import context
from archon.submission import submit_request


def test_a_nested_call_gets_at_most_the_time_left() -> None:
    assert context.timeout(30.0) == 30.0
    with context.deadline(5.0):
        assert 4.5 < context.timeout(30.0) <= 5.0
        assert context.timeout(1.0) == 1.0
        with context.deadline(60.0):
            assert context.timeout(30.0) <= 5.0, "an inner deadline does not extend the outer deadline"
    assert context.timeout(30.0) == 30.0


def test_current_span_is_the_trace_of_calls_made_now() -> None:
    served = context.CallContext(traceparent="of the call", tracestate="a=1")
    assert context.trace() == ("", "")
    parent = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1), trace_state=TraceState([("k", "v")]))
    with context.serving(served):
        assert context.trace() == ("of the call", "a=1")
        with trace.use_span(trace.NonRecordingSpan(parent)):
            assert context.trace() == (f"00-{0xABC:032x}-{0xDEF:016x}-01", "k=v")
            assert submit_request("x").trace.traceparent.startswith("00-0000")
        assert context.trace() == ("of the call", "a=1")
    assert not submit_request("x").HasField("trace")


def test_the_sdk_works_without_opentelemetry() -> None:
    code = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "import archon.client, archon.agent, archon.memory\n"
        "from archon import context\n"
        "print(context.trace(), any(name.startswith('opentelemetry.') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "('', '') False"
