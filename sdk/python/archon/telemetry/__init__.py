"""OpenTelemetry spans and metrics of a process, and its logs, for all packages of Archon.

    names          the names of all spans and attributes
    trace_parent   W3C Trace Context, as it travels in metadata and frames
    spans          spans of tasks and of unary calls
    otel_settings  the standard variables that spans, metrics and logs read alike
    final_export   the end of a process: one limit of time for all three
    export_failures  the reports if a collector takes nothing
    export         where spans go: configured by the standard OTEL_* variables
    span_queue     ended entries, until the thread that exports takes them
    span_data, light_span, otlp   the hot path's spans, in place of the SDK's objects
    metrics        the names of all metrics, and how they are counted
    metrics_export   where metrics go: configured by the standard OTEL_* variables
    logs           lines of all processes

A process that neither exports nor has a tracer provider of its own does not import OpenTelemetry's SDK, and
makes no spans.
"""
