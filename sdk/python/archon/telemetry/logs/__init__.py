"""Logs of a process: one line per record on standard error, as JSON or, on a terminal, as aligned text.

    process   sets up the standard library's logging, once per process
    fields    the fields of a line: of the record, the process, the call being served, and the current span
    render    a line as JSON, and as text
    queued    writes to a pipe or a terminal, which may block, on a thread
    otlp      exports records over OTLP, if OTEL_LOGS_EXPORTER asks for it

A module logs with `logging.getLogger(__name__)`. A line about a run that is not made while a call of that run is being
served names the run: `_log.warning("run %s: ...", run_id, extra={"run_id": run_id})`.
"""

from archon.telemetry.logs.fields import task_fields
from archon.telemetry.logs.process import FORMATS, LogFormat, begin_flush, close, flush, identify, setup

__all__ = ["FORMATS", "LogFormat", "begin_flush", "close", "flush", "identify", "setup", "task_fields"]
