"""The end of a process that exports: spans, metrics and logs have one limit of time together."""

from __future__ import annotations

import os
import sys

from archon.telemetry import export, export_failures, logs, metrics_export
from archon.telemetry.otel_settings import END_TIMEOUT


def stop_exports(timeout: float = END_TIMEOUT) -> None:
    """Exports the last spans, metrics and records of logs at the same time, for `timeout` seconds at most, and ends the
    export of spans and metrics. Blocks: call it when the event loop has ended, or on a thread. Idempotent."""
    waits = [logs.begin_flush(timeout), metrics_export.begin_stop(timeout), export.begin_stop(timeout)]
    for wait in waits:
        wait()


def exit_if_given_up(code: int | None) -> None:
    """Ends the process at once with this exit code if an exporter was given up; else returns. For programs that have
    nothing more to do: gRPC may wait 2 s for the exporter's handshakes when an interpreter ends."""
    if not export_failures.given_up:
        return
    logs.flush()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed
    os._exit(code or 0)
