"""Logs over OTLP: a real collector gets them, and one that is down or frozen delays no process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc

from archon.testing.frame_orchestrator import FrameOrchestrator
from tests.fixtures.ports import free_ports
from tests.fixtures.programs import program
from tests.fixtures.waiting import until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

AGENT = """
import logging, sys
from archon.agent import AgentServer
agent = AgentServer("poet")
@agent.task
async def work(task):
    try:
        raise KeyError("month")
    except KeyError:
        logging.getLogger("some.library").exception("no rhyme", extra={"words": 3})
    return "done"
sys.exit(agent.run())
"""


class Collector(logs_service_pb2_grpc.LogsServiceServicer):
    """Keeps what it gets; a `frozen` one never answers."""

    def __init__(self, *, frozen: bool = False) -> None:
        self.requests: list[logs_service_pb2.ExportLogsServiceRequest] = []
        self._frozen = frozen

    async def Export(self, request: Any, _: Any) -> logs_service_pb2.ExportLogsServiceResponse:
        self.requests.append(request)
        if self._frozen:
            await asyncio.Event().wait()
        return logs_service_pb2.ExportLogsServiceResponse()


@asynccontextmanager
async def collecting(collector: Collector, protocol: str = "grpc") -> AsyncIterator[dict[str, str]]:
    """Serves the collector; yields the variables with which a process exports its logs to it."""
    serve = over_grpc if protocol == "grpc" else over_http
    async with serve(collector) as endpoint:
        yield {
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        }


@asynccontextmanager
async def over_grpc(collector: Collector) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add: Any = logs_service_pb2_grpc.add_LogsServiceServicer_to_server
    add(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def over_http(collector: Collector) -> AsyncIterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.requests.append(logs_service_pb2.ExportLogsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", free_ports(1)[0]), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/logs"
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join(10)
        server.server_close()


async def run_agent(folder: Path, **environment: str) -> list[dict[str, Any]]:
    """Runs an agent through one task to its end; returns the lines that it has written."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ARCHON_", "OTEL_"))}
    variables = {**inherited, "ARCHON_READY_FILE": str(folder / "ready"), **environment}
    async with program(["-c", AGENT], variables, folder / "log") as child:
        await until(lambda: (folder / "ready").exists() or child.returncode is not None, 20.0)
        address = await asyncio.to_thread((folder / "ready").read_text)
        async with FrameOrchestrator(address) as peer:
            await peer.open()
            assignment = peer.assignment(peer.ref("one"), "a poem")
            assignment.assign_task.trace.traceparent = f"00-{TRACE}-{SPAN}-01"
            await peer.send(assignment)
            assert (await peer.result(peer.ref("one"))).output[0].text == "done"
        child.send_signal(signal.SIGTERM)
        assert await child.wait(15) == 0
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


@pytest.mark.parametrize("protocol", ["grpc", pytest.param("", marks=pytest.mark.slow), "http/protobuf"])
async def test_records_reach_a_collector_with_their_ids(tmp_path: Path, protocol: str) -> None:
    collector = Collector()
    async with collecting(collector, protocol) as environment:
        written = await run_agent(tmp_path, **environment)
    resources = [resource for request in collector.requests for resource in request.resource_logs]
    assert {
        attribute.value.string_value
        for resource in resources
        for attribute in resource.resource.attributes
        if attribute.key == "service.name"
    } == {"poet"}
    records = {
        record.body.string_value: record
        for resource in resources
        for scope in resource.scope_logs
        for record in scope.log_records
    }
    assert set(records) == {line["message"] for line in written}, "all of them, the last ones too"
    record = records["no rhyme"]
    assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE, SPAN)
    assert (record.severity_text, record.severity_number) == ("error", 17)
    attributes = {attribute.key: attribute.value for attribute in record.attributes}
    assert attributes["archon.instance.id"].string_value == written[0]["instance_id"]
    assert attributes["archon.run.id"].string_value == "run-1"
    assert attributes["archon.task.attempt"].int_value == 1
    assert attributes["words"].int_value == 3
    assert attributes["exception.type"].string_value == "KeyError"
    assert "Traceback" in attributes["exception.stacktrace"].string_value


@pytest.mark.parametrize("frozen", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["frozen", "down"])
async def test_a_collector_that_does_not_answer_delays_no_one(tmp_path: Path, frozen: bool) -> None:
    async with collecting(Collector(frozen=frozen)) as environment:
        down = {} if frozen else {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://127.0.0.1:1"}
        written = await run_agent(tmp_path, **{**environment, **down})
    assert "no rhyme" in {line["message"] for line in written}


@pytest.mark.parametrize(
    "exporter", [pytest.param("none", marks=pytest.mark.slow), pytest.param("", marks=pytest.mark.slow), "unheard-of"]
)
async def test_without_a_usable_exporter_lines_are_written_only(tmp_path: Path, exporter: str) -> None:
    written = await run_agent(tmp_path, OTEL_LOGS_EXPORTER=exporter)
    problems = [line["message"] for line in written if line["logger"] == "archon.telemetry.logs.otlp"]
    assert len(problems) == (exporter == "unheard-of")
    assert all(text.startswith("logs are not exported: the exporter 'unheard-of' cannot") for text in problems)
