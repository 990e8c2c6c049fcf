"""Where the spans of a process go, configured by OpenTelemetry's standard variables alone.

`OTEL_TRACES_EXPORTER` names the exporter (`otlp`, `console`, `none`, or one that an installed package offers); without
it spans are exported over OTLP if `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set.
Sampling, protocol, headers, limits, resource: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/

Spans are queued, and exported by a thread of their own. A collector that is down, slow or frozen delays no one: spans
that find the queue full are dropped.

OTLP goes over HTTP unless OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`. That costs more: a synchronous channel in a process
with an asynchronous one has two threads of gRPC wait for each other's sockets.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from archon.telemetry import export_failures, names
from archon.telemetry.otel_settings import (
    END_TIMEOUT,
    OTLP,
    begin,
    exporter_class,
    is_disabled,
    otlp_arguments,
    otlp_entry_point,
    resource_of,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from archon.telemetry.span_queue import SpanQueue

_log = logging.getLogger(__name__)

MAX_CONTENT: Final = 8192
"""Characters of a message, an argument or a result in a span, unless OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT is set."""

CONTENT_BATCH: Final = 64
"""Spans per export if they have contents: a collector takes 4 MiB."""


@dataclass(frozen=True, slots=True)
class Export:
    """The exporter of this process. `queue` takes ended spans."""

    provider: TracerProvider
    queue: SpanQueue
    follows_parents: bool
    """Whether the sampler records every span whose parent is recorded."""
    max_length: int | None
    """Characters of an attribute above which it is cut, or None."""

    def begin_close(self, timeout: float) -> Callable[[], object]:
        """Begins to export the queue, on a thread. Returns a function that waits for its end, until `timeout` seconds
        from now have passed."""
        return begin("spans", self.provider.shutdown, timeout, [self.queue.exporter])


_export: Export | None = None


def current() -> Export | None:
    """Returns the exporter of this process, or None if it exports no spans."""
    return _export


def start(service: str, instance_id: str = "") -> Export | None:
    """Starts exporting if the environment asks for it, and makes the exporter's tracer provider the process's own.

    `service` is the resource's `service.name` unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has one, and
    `instance_id` its `service.instance.id`. Returns None if export is not configured, or the process has a provider
    already. An exporter that cannot be created is logged: telemetry must not keep a process from serving.
    """
    global _export
    if _export is not None:
        return _export
    name = _exporter_name()
    if not name or _has_provider():
        return None
    try:
        _export = _open(name, service, instance_id)
    except Exception as error:  # noqa: BLE001 - whatever an exporter raises
        _log.error("spans are not exported: the exporter %r cannot be created: %s", name, error)
    return _export


def begin_stop(timeout: float = END_TIMEOUT) -> Callable[[], object]:
    """Ends exporting and begins to export the queue. Returns a function that waits for that, until `timeout` seconds
    from now have passed; it blocks. Idempotent."""
    global _export
    export, _export = _export, None
    return export.begin_close(timeout) if export is not None else lambda: None


def stop(timeout: float = END_TIMEOUT) -> None:
    """Exports the queue, for at most `timeout` seconds, and ends exporting. Blocks. Idempotent."""
    begin_stop(timeout)()


def _exporter_name() -> str:
    """Returns the entry point of the exporter that the environment asks for; empty if none."""
    if is_disabled():
        return ""
    chosen = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if not chosen:
        endpoints = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
        chosen = "otlp" if any(os.environ.get(variable) for variable in endpoints) else "none"
    if chosen == "none":
        return ""
    return otlp_entry_point("TRACES") if chosen == "otlp" else chosen


def _has_provider() -> bool:
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _open(name: str, service: str, instance_id: str) -> Export:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased

    from archon.telemetry.span_queue import BATCH, SpanQueue

    content = names.captures_content()
    limits = None
    if content and "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" not in os.environ:
        limits = SpanLimits(max_span_attribute_length=MAX_CONTENT)
    # Not at the exit of the interpreter: `stop` has a deadline.
    resource = resource_of(service, instance_id)
    provider = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    exporter, encoded = _exporter(name)
    export_failures.take_over()
    queue = SpanQueue(exporter, provider.resource, encoded=encoded, batch=CONTENT_BATCH if content else BATCH)
    provider.add_span_processor(queue)
    trace.set_tracer_provider(provider)
    return Export(provider, queue, isinstance(provider.sampler, ParentBased), MAX_CONTENT if limits else None)


def _exporter(name: str) -> tuple[SpanExporter, bool]:
    """Creates an exporter; the second value is True if it takes EncodedSpans. Raises LookupError if no installed
    package offers one of this name."""
    from archon.telemetry.otlp import OtlpGrpcExporter, OtlpHttpExporter

    if name == OTLP["http/protobuf"]:
        return OtlpHttpExporter(**otlp_arguments("TRACES", name)), True
    if name == OTLP["grpc"]:
        return OtlpGrpcExporter(**otlp_arguments("TRACES", name)), True
    exporter: SpanExporter = exporter_class("TRACES", name)()
    return exporter, False
