"""Collectors that are down in one way or another: no process ends late because of them, and a line at most says so."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

PROGRAM = """
import logging, time
from archon.telemetry import export, logs, metrics_export, spans
from archon.telemetry.final_export import stop_exports
logs.setup("clerk", log_format="json")
export.start("clerk", "clerk-1")
metrics_export.start("clerk", "clerk-1")
with spans.root_span("a"):
    logging.getLogger("clerk").warning("hello")
print(time.monotonic(), flush=True)
stop_exports()
logs.close()
"""

BOUND = 3.0
"""Seconds; the limit is 0.5 s, and a busy machine may need as long again. Without it the end takes 7 to 20 s."""


@contextmanager
def refused() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@contextmanager
def black_hole() -> Iterator[str]:
    """Answers no SYN: its queue of connections is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def silent_tls() -> Iterator[str]:
    with silent() as url:
        yield url.replace("http:", "https:")


@contextmanager
def unavailable() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(503)
            self.send_header("Retry-After", "2")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def unknown_name() -> Iterator[str]:
    yield "http://collector.invalid:4318"


QUICK = ((refused, "grpc"), (black_hole, "http/protobuf"), (silent, "grpc"), (unavailable, "http/protobuf"))


@pytest.mark.liveness
@pytest.mark.parametrize(
    ("dead", "protocol"),
    [
        pytest.param(dead, protocol, marks=[] if (dead, protocol) in QUICK else pytest.mark.slow)
        for dead in (refused, black_hole, silent, silent_tls, unavailable, unknown_name)
        for protocol in ("http/protobuf", "grpc")
    ],
)
async def test_a_dead_collector_delays_the_end_of_no_process(dead: Callable[[], object], protocol: str) -> None:
    with dead() as url:  # type: ignore[attr-defined]
        exporters = {f"OTEL_{signal}_EXPORTER": "otlp" for signal in ("TRACES", "METRICS", "LOGS")}
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        done, seconds = await asyncio.to_thread(run, {**exporters, **where})
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["logger"] for line in lines if line["logger"] != "clerk"] == ["archon.telemetry.export_failures"]
    assert seconds < BOUND


def run(variables: dict[str, str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs the program; returns also the seconds from its last statements to its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60
    )
    # Not `time.monotonic`, which a mesh in process may have moved on.
    return done, time.clock_gettime(time.CLOCK_MONOTONIC) - float(done.stdout)


async def test_a_process_that_gave_up_keeps_its_exit_code_and_handlers() -> None:
    code = "import atexit, sys\natexit.register(lambda: print('left'))\nsys.exit(7)\n"
    with silent_tls() as url:
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", PROGRAM + code],
            env={**os.environ, **where},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (7, "left")
