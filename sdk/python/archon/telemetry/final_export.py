"""The end of a process that exports: spans, metrics and logs have one limit of time together."""

from __future__ import annotations

from archon.telemetry import export, logs, metrics_export
from archon.telemetry.otel_settings import END_TIMEOUT


def stop_exports(timeout: float = END_TIMEOUT) -> None:
    """Exports the last spans, metrics and records of logs at the same time, for `timeout` seconds at most, and ends the
    export of spans and metrics. Blocks: call it when the event loop has ended, or on a thread. Idempotent."""
    waits = [logs.begin_flush(timeout), metrics_export.begin_stop(timeout), export.begin_stop(timeout)]
    for wait in waits:
        wait()
