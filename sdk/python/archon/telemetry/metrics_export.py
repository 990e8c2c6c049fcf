"""Where the metrics of a process go, configured by OpenTelemetry's standard variables alone.

`OTEL_METRICS_EXPORTER` names the exporters, separated by commas: `otlp`, `prometheus`, `console`, `none`, or others of
installed packages. Without it metrics are exported over OTLP if `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` is set.
`OTEL_EXPORTER_OTLP_ENDPOINT` alone exports none: many receivers of spans take no metrics.

OTLP goes over HTTP unless `OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`, as for spans (`export`).

Exporting has threads of its own, and so has answering scrapes. A collector that is down, slow or frozen delays neither
a run nor, for more than `END_TIMEOUT`, the end of the process.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from archon.background import monitor
from archon.errors import FailedPrecondition
from archon.loopback import loopback_host
from archon.telemetry import export_failures, metrics, names
from archon.telemetry.otel_settings import (
    END_TIMEOUT,
    begin,
    exporter_class,
    is_disabled,
    otlp_arguments,
    otlp_entry_point,
    resource_of,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader
    from opentelemetry.sdk.resources import Resource

_log = logging.getLogger(__name__)

EXTRA: Final = "prometheus"
"""The extra with the exporter of that name; those over OTLP come with the package."""

DEFAULT_PORT: Final = 9464
PROMETHEUS: Final = "prometheus"


@dataclass(frozen=True, slots=True)
class MetricsExport:
    """The exporters of this process, but for those in readers of other packages. `close_servers` end the endpoints that
    are scraped."""

    provider: MeterProvider
    exporters: Sequence[MetricExporter]
    close_servers: Sequence[Callable[[], None]]

    def begin_close(self, timeout: float) -> Callable[[], object]:
        """Begins to export a last time, in a thread. Returns a function that waits for its end, until `timeout` seconds
        from now have passed."""
        return begin("metrics", lambda: self._shut_down(timeout), timeout, self.exporters)

    def _shut_down(self, timeout: float) -> None:
        # A server may need half a second to notice that it is to end: meanwhile the others export.
        closing = [threading.Thread(target=close, name="close-metrics", daemon=True) for close in self.close_servers]
        for thread in closing:
            thread.start()
        self.provider.shutdown(2 * timeout * 1000)  # not at the same time as `begin` shuts down the exporters
        for thread in closing:
            thread.join()


_export: MetricsExport | None = None


def start(service: str, instance_id: str = "") -> metrics.Recorder | None:
    """Starts exporting if the environment asks for it, and gives the process a recorder.

    `service` is the resource's `service.name` unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has one, and
    `instance_id` its `service.instance.id`. Returns None if export is not configured. Exporters that cannot be created
    are logged: telemetry must not keep a process from serving.
    """
    global _export
    if _export is not None:
        return metrics.recorder()
    exporters = exporter_names()
    if not exporters:
        return None
    try:
        _export = _open(exporters, resource_of(service, instance_id))
    except Exception as error:  # noqa: BLE001 - whatever an exporter raises
        _log.error("metrics are not exported (OTEL_METRICS_EXPORTER): %s", error)
        return None
    recorder = metrics.Recorder(_export.provider.get_meter(names.SCOPE))
    recorder.observe(metrics.LOOPS_FAILING, lambda: [((), len(monitor.failing))])
    metrics.use(recorder)
    return recorder


def begin_stop(timeout: float = END_TIMEOUT) -> Callable[[], object]:
    """Ends measuring and begins to export a last time. Returns a function that waits for that, until `timeout` seconds
    from now have passed; it blocks. Idempotent."""
    global _export
    export, _export = _export, None
    if export is None:
        return lambda: None
    metrics.use(None)
    return export.begin_close(timeout)


def stop(timeout: float = END_TIMEOUT) -> None:
    """Exports a last time, within `timeout` seconds, and ends exporting. Blocks. Idempotent."""
    begin_stop(timeout)()


def exporter_names() -> tuple[str, ...]:
    """Returns the exporters that the environment asks for."""
    if is_disabled():
        return ()
    chosen = os.environ.get("OTEL_METRICS_EXPORTER", "").strip().lower()
    if not chosen and os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
        chosen = "otlp"
    named = dict.fromkeys(name.strip() for name in chosen.split(","))
    return tuple(name for name in named if name not in ("", "none"))


def _open(exporters: Sequence[str], resource: Resource) -> MetricsExport:
    """Raises FailedPrecondition or LookupError if a package is missing, and the exporter's errors."""
    from opentelemetry.sdk.metrics import MeterProvider

    readers: list[MetricReader] = []
    pushing: list[MetricExporter] = []
    close_servers: list[Callable[[], None]] = []
    try:
        for name in exporters:
            if name == PROMETHEUS:
                reader, close_server = _scraped()
                close_servers.append(close_server)
            else:
                reader, exporter = _reader(name)
                pushing += [exporter] if exporter is not None else []
            readers.append(reader)
    except Exception:
        for close_server in close_servers:
            close_server()
        raise
    export_failures.take_over()
    # Not at the exit of the interpreter: `stop` has a deadline.
    return MetricsExport(MeterProvider(readers, resource, shutdown_on_exit=False), pushing, close_servers)


def _scraped() -> tuple[MetricReader, Callable[[], None]]:
    """Serves a Prometheus endpoint. Raises OSError if the port is taken."""
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        message = f"the exporter for Prometheus is not installed: pip install 'archon-mesh[{EXTRA}]'"
        raise FailedPrecondition(message) from error
    host = os.environ.get("OTEL_EXPORTER_PROMETHEUS_HOST") or loopback_host()
    port = int(os.environ.get("OTEL_EXPORTER_PROMETHEUS_PORT") or DEFAULT_PORT)
    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(port, host.strip("[]"), registry)
    except OSError as error:
        raise FailedPrecondition(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    _log.info("metrics on http://%s:%d/metrics", host, server.server_port)
    return PrometheusMetricReader(scope_info_enabled=False, registry=registry), close


def _reader(name: str) -> tuple[MetricReader, MetricExporter | None]:
    """Creates a reader that exports periodically, and its exporter; None if a package offers the reader itself. Raises
    LookupError if no installed package offers either."""
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

    if name == "otlp":
        name = otlp_entry_point("METRICS")
    created: Any = exporter_class("METRICS", name)(**otlp_arguments("METRICS", name))
    return (created, None) if isinstance(created, MetricReader) else (PeriodicExportingMetricReader(created), created)
