"""The exporter of a process: what the standard variables choose, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import json, logging, sys, time
logging.basicConfig(stream=sys.stderr)
from archon.telemetry import export, spans
began = time.monotonic()
active = export.start("clerk", "clerk-1")
out = {"tracer": spans.tracer() is not None, "sdk": "opentelemetry.sdk.trace" in sys.modules}
if active is not None:
    out["exporter"] = type(active.queue.exporter).__name__
    out["resource"] = {k: v for k, v in active.provider.resource.attributes.items() if k.startswith("service.")}
    with spans.root_span("a"):
        pass
export.stop(2.0)
out["seconds"] = time.monotonic() - began
print("\\n" + json.dumps(out))
"""


def run(**variables: str) -> tuple[dict[str, Any], str]:
    """Runs the program with these variables; returns what it printed, and its log."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", ENDPOINT: "http://127.0.0.1:1"},
    ],
)
def test_without_a_wish_nothing_is_exported_or_imported(variables: dict[str, str]) -> None:
    out, _ = run(**variables)
    assert (out["tracer"], out["sdk"]) == (False, False)


@pytest.mark.parametrize(
    ("protocol", "exporter"),
    [
        ("", "OtlpHttpExporter"),
        pytest.param("http/protobuf", "OtlpHttpExporter", marks=pytest.mark.slow),
        pytest.param("grpc", "OtlpGrpcExporter", marks=pytest.mark.slow),
    ],
)
@pytest.mark.liveness
def test_an_endpoint_chooses_otlp_and_a_dead_one_is_left(protocol: str, exporter: str) -> None:
    out, _ = run(**{ENDPOINT: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
    assert (out["exporter"], out["tracer"]) == (exporter, True)
    assert out["seconds"] < 30, "the end waits 2 s for the last spans; the exporter would try for 64 s"
    assert (out["resource"]["service.name"], out["resource"]["service.instance.id"]) == ("clerk", "clerk-1")


def test_the_name_of_the_service_can_be_chosen() -> None:
    out, _ = run(OTEL_TRACES_EXPORTER="console", OTEL_RESOURCE_ATTRIBUTES="service.name=mine,service.namespace=shop")
    assert (out["resource"]["service.name"], out["resource"]["service.namespace"]) == ("mine", "shop")


def test_an_unknown_exporter_is_logged_and_the_process_goes_on() -> None:
    out, log = run(OTEL_TRACES_EXPORTER="zipkinn")
    assert out["tracer"] is False
    assert "spans are not exported: the exporter 'zipkinn' cannot be created" in log and "console" in log
