"""OpenTelemetry spans of a process, for all packages of Archon.

    names          the names of all spans and attributes
    trace_parent   W3C Trace Context, as it travels in metadata and frames
    spans          spans of tasks and of unary calls
    export         where spans go: configured by the standard OTEL_* variables
    span_queue     what has ended, until the thread that exports takes it
    span_data, light_span, otlp   what the hot path makes in place of the SDK's objects

A process that neither is told to export nor has a tracer provider of its own does not import OpenTelemetry's SDK, and
makes no spans.
"""
