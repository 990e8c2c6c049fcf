"""Exports records over OTLP beside writing them, if the variable OTEL_LOGS_EXPORTER asks for it (`otlp`, `console`, or
one that an installed package offers). The other variables of OpenTelemetry apply, such as OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_RESOURCE_ATTRIBUTES and OTEL_BLRP_MAX_QUEUE_SIZE.

Records are queued, and exported by a thread of the SDK. A collector that is down delays no one: if the queue is full,
its oldest records are dropped.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.telemetry import export_failures, names, spans
from archon.telemetry.logs.fields import LineFields, ProcessIdentity
from archon.telemetry.otel_settings import (
    END_TIMEOUT,
    begin,
    exporter_class,
    is_disabled,
    otlp_arguments,
    otlp_entry_point,
    resource_of,
)
from archon.telemetry.trace_parent import TraceParent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT: Final = 0.1
"""Seconds that the end of a process waits for the records that were logged since `begin_flush`, if the export of the
earlier ones has not ended in time. Otherwise it waits up to END_TIMEOUT: the collector answers."""

_OWN: Final = ("opentelemetry", "urllib3", "requests", "grpc")
"""Loggers of the exporters: their records would be exported in turn."""

_SEVERITY: Final = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}
"""https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber"""

_NAMES: Final = {
    "instance_id": names.INSTANCE_ID,
    "run_id": names.RUN_ID,
    "task_id": names.TASK_ID,
    "attempt": names.TASK_ATTEMPT,
    "agent": names.AGENT_NAME,
    "model": names.REQUEST_MODEL,
    "tool": names.TOOL_NAME,
    "input_tokens": names.INPUT_TOKENS,
    "output_tokens": names.OUTPUT_TOKENS,
    "cost_usd": names.COST,
    "reason": names.ERROR_TYPE,
}
"""Attributes that spans have, too. Other fields keep their names."""

_IN_RECORD: Final = frozenset({"time", "level", "message", "logger", "service", "trace_id", "span_id", "error"})


def open_exporter(process: ProcessIdentity) -> OtlpHandler | None:
    """Returns a handler that exports records, or None if the environment does not ask for it. An exporter that cannot
    be created is logged: telemetry must not keep a process from serving."""
    name = _exporter_name()
    if not name:
        return None
    try:
        return OtlpHandler(_exporter(name), process)
    except Exception as error:  # noqa: BLE001 - whatever an exporter raises
        _log.error("logs are not exported: the exporter %r cannot be created: %s", name, error)
        return None


class OtlpHandler(logging.Handler):
    """Exports the fields of records, as they are in a line of JSON."""

    def __init__(self, exporter: LogRecordExporter, process: ProcessIdentity) -> None:
        super().__init__()
        self._exporter = exporter
        self._provider = _provider(exporter, process)
        self._fields = LineFields(process)
        self._closed = False
        self._close_timeout = CLOSE_TIMEOUT
        self.addFilter(lambda record: not record.name.startswith(_OWN))

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._export(self._fields(record), record.created)
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)

    def _export(self, fields: Mapping[str, Any], created: float) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber

        level = fields["level"]
        self._provider.get_logger(fields["logger"]).emit(
            LogRecord(
                timestamp=int(created * 1e9),
                context=_context_of(fields),
                severity_text=level,
                severity_number=SeverityNumber(_SEVERITY.get(level, 9)),
                body=fields["message"],
                attributes=_attributes_of(fields),
            )
        )

    def begin_flush(self, timeout: float) -> Callable[[], None]:
        """Begins to export the queue, on a thread. Returns a function that waits for its end, until `timeout` seconds
        from now have passed."""
        wait = begin("logs", self._provider.force_flush, timeout, [self._exporter])

        def flushed() -> None:
            self._close_timeout = END_TIMEOUT if wait() else CLOSE_TIMEOUT

        return flushed

    @override
    def close(self) -> None:
        """Exports the queue, for CLOSE_TIMEOUT or END_TIMEOUT seconds at most. Blocks. Idempotent."""
        if not self._closed:
            self._closed = True
            begin("logs", self._provider.shutdown, self._close_timeout, [self._exporter])()
        super().close()


def _context_of(fields: Mapping[str, Any]) -> Context:
    """Returns the OpenTelemetry context with the span of the fields, empty if they have none."""
    from opentelemetry.context import Context

    if "trace_id" not in fields:
        return Context()
    return spans.remote_context(TraceParent(fields["trace_id"], fields["span_id"], sampled=True), "")


def _attributes_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {_NAMES.get(name, name): value for name, value in fields.items() if name not in _IN_RECORD}
    error = fields.get("error", {})
    keys = {"type": "exception.type", "message": "exception.message", "stack": "exception.stacktrace"}
    return attributes | {keys[name]: text for name, text in error.items()}


def _exporter_name() -> str:
    """Returns the entry point of the exporter that the environment asks for; empty if none."""
    chosen = os.environ.get("OTEL_LOGS_EXPORTER", "").strip().lower()
    if is_disabled() or chosen in ("", "none"):
        return ""
    if chosen != "otlp":
        return chosen
    return otlp_entry_point("LOGS")


def _exporter(name: str) -> LogRecordExporter:
    """Raises LookupError if no installed package has the exporter."""
    exporter: LogRecordExporter = exporter_class("LOGS", name)(**otlp_arguments("LOGS", name))
    return exporter


def _provider(exporter: LogRecordExporter, process: ProcessIdentity) -> LoggerProvider:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider(resource_of(process.service, process.instance_id), shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    export_failures.take_over()
    return provider
