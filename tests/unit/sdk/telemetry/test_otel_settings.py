"""Collectors on this machine are reached without the proxy of the environment, others through it."""

from __future__ import annotations

import pytest

from archon.telemetry.otel_settings import OTLP, otlp_arguments

HTTP, GRPC = OTLP["http/protobuf"], OTLP["grpc"]


@pytest.mark.parametrize(
    ("endpoint", "is_direct"),
    [
        ("", True),
        ("http://localhost:4318", True),
        ("http://127.0.0.1:4318/v1/traces", True),
        ("https://[::1]:4318", True),
        ("localhost:4317", True),
        ("http://collector:4318", False),
        ("collector.example.com:4317", False),
        ("http://10.0.0.1:4318", False),
    ],
)
def test_a_collector_on_this_machine_is_reached_directly(
    endpoint: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    session = otlp_arguments("TRACES", HTTP).get("session")
    assert (session is not None and not session.trust_env) is is_direct
    options = dict(otlp_arguments("TRACES", GRPC).get("channel_options", ()))
    assert (options.get("grpc.enable_http_proxy") == 0) is is_direct
    assert otlp_arguments("TRACES", "console") == {}


def test_the_endpoint_of_a_signal_precedes_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://localhost:4318/v1/logs")
    assert otlp_arguments("LOGS", HTTP) and not otlp_arguments("METRICS", HTTP)
