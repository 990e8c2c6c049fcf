"""Exporters of metrics are chosen by the standard variables, and never keep a process from serving or stopping."""

from __future__ import annotations

import gzip
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc

from archon.telemetry import metrics, metrics_export, otel_settings
from tests.fixtures.ports import free_ports
from tests.fixtures.prometheus import scrape, value

VARIABLES = (
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_PROMETHEUS_HOST",
    "OTEL_EXPORTER_PROMETHEUS_PORT",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The variables, all unset; what a test has started ends with it."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    metrics_export.stop()


@pytest.mark.parametrize(
    ("variables", "exporters"),
    [
        ({}, ()),
        ({"OTEL_METRICS_EXPORTER": "none"}, ()),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, ("otlp",)),
        ({"OTEL_METRICS_EXPORTER": " Prometheus, otlp,otlp"}, ("prometheus", "otlp")),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4317"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://jaeger:4317"}, ()),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, ()),
    ],
)
def test_the_variables_choose_the_exporters(
    environment: pytest.MonkeyPatch, variables: dict[str, str], exporters: tuple[str, ...]
) -> None:
    for name, text in variables.items():
        environment.setenv(name, text)
    assert metrics_export.exporter_names() == exporters


@pytest.mark.parametrize("named", ["no_such_exporter", "prometheus"])
def test_an_exporter_that_cannot_start_is_logged(
    environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, named: str
) -> None:
    environment.setenv("OTEL_METRICS_EXPORTER", named)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(taken.getsockname()[1]))
        assert metrics_export.start("x") is None
    assert metrics.recorder() is None
    reason = "cannot serve metrics on 127.0.0.1:" if named == "prometheus" else "offers the exporter 'no_such_exporter'"
    assert reason in caplog.text


async def test_a_prometheus_endpoint_serves_metrics_and_resource(environment: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    environment.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    environment.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
    recorder = metrics_export.start("archon-test", "test-1")
    assert recorder is not None and recorder is metrics.recorder() is metrics_export.start("archon-test")
    recorder.add(metrics.ATTEMPTS_DISPATCHED, ("designer",))
    scraped = await scrape(port)
    assert value(scraped, "archon_attempts_dispatched_total", archon_role="designer") == 1
    assert value(scraped, "archon_loops_failing") == 0
    metrics_export.stop()
    with pytest.raises(OSError):
        await scrape(port)


def test_the_resource_names_service_and_instance(environment: pytest.MonkeyPatch) -> None:
    resource = otel_settings.resource_of("archon-test", "test-1").attributes
    assert resource["service.name"] == "archon-test"
    assert resource["service.instance.id"] == "test-1"
    environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=mine,service.name=other")
    resource = otel_settings.resource_of("archon-test", "test-1").attributes
    assert (resource["service.name"], resource["service.instance.id"]) == ("other", "mine")


def test_a_missing_package_is_named_with_its_extra(
    environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environment.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    environment.setitem(sys.modules, "opentelemetry.exporter.prometheus", None)  # as if it were not installed
    assert metrics_export.start("x") is None
    assert "pip install 'archon-mesh[prometheus]'" in caplog.text


class Collector(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Receives metrics over OTLP."""

    def __init__(self) -> None:
        self.received = threading.Event()
        self.names: set[str] = set()

    def Export(self, request: metrics_service_pb2.ExportMetricsServiceRequest, context: Any) -> Any:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self.names |= {metric.name for metric in scope.metrics}
        self.received.set()
        return metrics_service_pb2.ExportMetricsServiceResponse()


class HttpCollector(ThreadingHTTPServer):
    """Passes what it receives over HTTP on to a Collector."""

    def __init__(self, collector: Collector) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                content = gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content
                request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(content)
                self.send_response(200 if self.path == "/v1/metrics" else 404)
                self.end_headers()
                self.wfile.write(collector.Export(request, None).SerializeToString())

        super().__init__(("127.0.0.1", free_ports(1)[0]), Handler)


def test_the_last_values_are_exported_at_the_end_over_http(environment: pytest.MonkeyPatch) -> None:
    collector = Collector()
    with HttpCollector(collector) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        environment.setenv("OTEL_METRICS_EXPORTER", "otlp")
        assert metrics_export.start("archon-test") is not None
        metrics_export.stop(timeout=20.0)
        assert collector.received.wait(20)
        server.shutdown()
    assert "archon.loops.failing" in collector.names


def test_the_last_values_are_exported_at_the_end_over_grpc(environment: pytest.MonkeyPatch) -> None:
    collector = Collector()
    environment.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    server = grpc.server(futures.ThreadPoolExecutor(1))
    add: Any = metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server
    add(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    environment.setenv("OTEL_METRICS_EXPORTER", "otlp,prometheus")
    environment.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(free_ports(1)[0]))
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    recorder = metrics_export.start("archon-test")
    assert recorder is not None
    recorder.record(metrics.COMMIT_DURATION, 0.01)
    metrics_export.stop(timeout=20.0)
    assert collector.received.wait(20)
    server.stop(None)
    assert {"archon.journal.commit.duration", "archon.loops.failing"} <= collector.names


@pytest.mark.liveness
def test_a_scraper_that_is_frozen_delays_no_stop(environment: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    environment.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    environment.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
    metrics_export.start("archon-test")
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(b"GET /metrics HTTP/1.1\r\n")  # and no end of the request
        began = time.monotonic()
        metrics_export.stop()
        assert time.monotonic() - began < 30, "without a limit it would not end"


@pytest.mark.liveness
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "down"])
def test_a_collector_that_is_frozen_or_down_delays_no_stop(environment: pytest.MonkeyPatch, frozen: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        port = silent.getsockname()[1]
        if not frozen:
            silent.close()
        environment.setenv("OTEL_METRICS_EXPORTER", "otlp")
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        environment.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
        recorder = metrics_export.start("archon-test")
        assert recorder is not None
        recorder.record(metrics.COMMIT_DURATION, 0.01)
        began = time.monotonic()
        wait = metrics_export.begin_stop()
        for _ in range(3):
            wait()  # the deadline counts from the beginning
        assert time.monotonic() - began < 2.8 * otel_settings.END_TIMEOUT, "three waits, one limit"
        assert metrics.recorder() is None
