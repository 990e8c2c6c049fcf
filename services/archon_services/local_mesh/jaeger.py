"""Jaeger v2 beside a mesh: it receives the spans of all processes and answers queries about traces.

Traces are kept in memory, MAX_TRACES of them, and end with the mesh. https://www.jaegertracing.io/docs/2.dev/
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from archon.errors import NotFound
from archon.loopback import loopback_host
from archon.private_files import fault_of
from archon_services.local_mesh.ports import free_port, is_free_here

NAME: Final = "jaeger"
MAX_TRACES: Final = 10_000
QUERY_PORT: Final = 16686
OTLP_PORT: Final = 4318
OTLP_GRPC_PORT: Final = 4317
"""The ports that Jaeger's documentation names."""

_CONFIG: Final = """\
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], processors: [batch], exporters: [jaeger_storage_exporter]}}
  telemetry:
    metrics: {{level: none}}
    logs: {{level: warn}}
extensions:
  jaeger_storage:
    backends: {{memory: {{memory: {{max_traces: {max_traces}}}}}}}
  jaeger_query:
    storage: {{traces: memory}}
    http: {{endpoint: "{query}"}}
    grpc: {{endpoint: "{grpc}"}}
receivers:
  otlp: {{protocols: {{http: {{endpoint: "{otlp}"}}, grpc: {{endpoint: "{otlp_grpc}"}}}}}}
processors:
  batch: {{timeout: 200ms}}
exporters:
  jaeger_storage_exporter: {{trace_storage: memory}}
"""


def find_jaeger(path: str = "") -> Path:
    """Returns Jaeger's program: `path`, or `jaeger` on PATH, or .tools/bin/jaeger in the current directory or in the
    one of the sources. Raises NotFound."""
    if path:
        if os.access(path, os.X_OK):
            return Path(path).resolve()
        raise NotFound(f"{path} is not a program")
    if found := shutil.which(NAME):
        return Path(found)
    for root in (Path.cwd(), Path(__file__).parents[3]):
        tools = root / ".tools"
        if os.access(program := tools / "bin" / NAME, os.X_OK):
            for part in (tools, tools / "bin", program):
                if fault := fault_of(part):
                    raise NotFound(f"{program} is not executed, because of {part}: {fault}")
            return program
    raise NotFound(
        "it is neither on PATH nor in .tools/bin: download it from https://www.jaegertracing.io/download/, or build it "
        "with `make tools`"
    )


class JaegerAddresses(NamedTuple):
    """Where Jaeger listens, each host:port: `query` answers queries over HTTP, `otlp` receives spans over HTTP,
    `otlp_grpc` over gRPC."""

    query: str
    otlp: str
    otlp_grpc: str


NO_JAEGER: Final = JaegerAddresses("", "", "")


def choose_addresses(*, free_ports: bool, taken: set[int]) -> JaegerAddresses:
    """Returns the usual ports, or free ones if they are in use; adds them to `taken`."""
    addresses = []
    for default in (QUERY_PORT, OTLP_PORT, OTLP_GRPC_PORT):
        usual = not free_ports and default not in taken and is_free_here(default)
        port = default if usual else free_port(taken)
        taken.add(port)
        addresses.append(f"{loopback_host()}:{port}")
    return JaegerAddresses(*addresses)


def jaeger_command(program: Path, folder: Path, addresses: JaegerAddresses, taken: set[int]) -> tuple[str, ...]:
    """Writes the configuration into `folder` and returns the command."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    grpc = f"{loopback_host()}:{free_port(taken)}"
    config.write_text(_CONFIG.format(max_traces=MAX_TRACES, grpc=grpc, **addresses._asdict()))
    return (str(program), "--config", str(config))


def exporting_to(otlp: str) -> Mapping[str, str]:
    """Returns the variables with which a process exports its spans to the receiver at `otlp` (host:port)."""
    return {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://{otlp}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    }
