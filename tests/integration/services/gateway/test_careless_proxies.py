"""Proxies that compress everything and buffer, as their operators have them for other servers, and HTTP/2: the streams of the
gateway pass on what comes, and a browser may have more of them than connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx2
import pytest
import pytest_asyncio

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from tests.fixtures import http_proxies
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, EventReader, GatewayMesh, gateway_mesh
from tests.fixtures.ports import free_ports
from tests.fixtures.require import require

pytestmark = pytest.mark.search

CARELESS: Final = {
    "nginx": (
        ("proxy_buffering off;    # events are passed on as they come", "gzip on; gzip_types *; gzip_proxied any;"),
    ),
    "caddy": (
        ("http://127.0.0.1:8000 {", "http://127.0.0.1:8000 {\n\tencode gzip zstd"),
        ("flush_interval -1 # events are passed on as they come", ""),
    ),
    "haproxy": (
        (
            "frontend http",
            "frontend http\n  filter compression\n  compression algo gzip\n  compression type text/event-stream application/json",
        ),
    ),
    "traefik": (
        ("service: gateway}", "service: gateway, middlewares: [small]}\n  middlewares:\n    small: {compress: {}}"),
        ("responseForwarding: {flushInterval: 10ms}", ""),
    ),
    "envoy": (
        (
            "http_filters:",
            "http_filters:\n"
            "                  - name: envoy.filters.http.compressor\n"
            "                    typed_config:\n"
            '                      "@type": type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor\n'
            "                      response_direction_config: {common_config: {content_type: [text/event-stream, application/json]}}\n"
            "                      compressor_library:\n"
            "                        name: gzip\n"
            '                        typed_config: {"@type": type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip}',
        ),
    ),
}
"""Changes of the configurations of deploy/proxies."""

OF_HTTP_2: Final = ("traefik", "envoy")
"""Proxies that speak HTTP/2 without TLS, too."""

STREAMS: Final = 12
"""Streams of one browser: more than the six connections that it opens by HTTP/1.1."""


VIEWERS: Final = """
const [url, path, authorization, number] = process.argv.slice(1);
const session = require("node:http2").connect(url);
let begun = 0, ended = 0;
for (let viewer = 0; viewer < +number; viewer++) {
  const stream = session.request({ ":path": path, authorization });
  let text = "", seen = false;
  stream.setEncoding("utf8");
  stream.on("data", (piece) => {
    text += piece;
    if (!seen && text.includes("id: 1\\n")) {
      seen = true;
      if (++begun === +number) console.log("all have begun");
    }
  });
  stream.on("end", () => {
    if (text.endsWith("event: end\\ndata: {}\\n\\n") && ++ended === +number) {
      console.log("all have ended");
      session.close();
    }
  });
}
"""
"""A browser with many viewers of a run over one connection of HTTP/2."""


class Front:
    """A proxy before a gateway. `release` ends the tasks of the role `patient`."""

    def __init__(self, address: str, served: GatewayMesh, release: asyncio.Event) -> None:
        self.address, self.served, self.release = address, served, release

    async def patient_run(self, http: httpx2.AsyncClient) -> str:
        """Submits a run that goes on until `release` is set."""
        self.release.clear()
        return await self.served.submit(http, roles=["patient"])


@pytest_asyncio.fixture(scope="module", params=http_proxies.COMMANDS)
async def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Front]:
    name: str = request.param
    folder, changed = Path(tmp_path_factory.mktemp(name)), Path(tmp_path_factory.mktemp("changed"))
    file = http_proxies.COMMANDS[name][1]
    text = (http_proxies.CONFIGURATIONS / file).read_text()
    for before, after in CARELESS[name]:
        assert before in text
        text = text.replace(before, after)
    (changed / file).write_text(text)
    port, first = free_ports(2)
    release = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        await release.wait()
        return "done"

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(http_proxies, "CONFIGURATIONS", changed)
        async with gateway_mesh(folder, monkeypatch, port=first, trusted_proxies="127.0.0.1") as served:
            agent = AgentServer("patient", handler=wait, settings=AgentSettings(registry=served.mesh.registry.address))
            gateways = [served.gateway.address] * 2
            async with agent, http_proxies.proxied(name, port, gateways, folder) as address:
                yield Front(address, served, release)
                release.set()


async def test_events_come_at_once_through_a_proxy_that_compresses(front: Front) -> None:
    headers = {**front.served.headers(OPERATOR), "accept-encoding": "gzip"}
    async with httpx2.AsyncClient(base_url=f"http://{front.address}", headers=headers, timeout=15.0) as http:
        run_id = await front.patient_run(http)
        async with asyncio.timeout(10), http.stream("GET", f"/events/runs/{run_id}") as response:
            reader = EventReader(response)
            assert (await reader.next())[1] == "1", "while the run waits"
            front.release.set()
            assert (await reader.all())[-1][0] == "end"


async def test_a_stream_of_connect_comes_at_once(front: Front) -> None:
    headers = {**front.served.headers(OPERATOR), "accept-encoding": "gzip", "content-type": "application/connect+json"}
    async with httpx2.AsyncClient(base_url=f"http://{front.address}", headers=headers, timeout=15.0) as http:
        async with front.served.http(OPERATOR) as direct:
            run_id = await front.patient_run(direct)
        message = json.dumps({"runId": run_id}).encode()
        request = b"\0" + len(message).to_bytes(4, "big") + message
        path = f"{ORCHESTRATOR}/WatchRun"
        async with asyncio.timeout(10), http.stream("POST", path, content=request) as response:
            pieces = response.aiter_bytes()
            assert b'"seq"' in await anext(pieces), "while the run waits"
            front.release.set()
            rest = b"".join([piece async for piece in pieces])
    assert b"STATE_COMPLETED" in rest


@pytest.mark.parametrize("front", OF_HTTP_2, indirect=True)
async def test_more_streams_than_connections_go_over_http_2(front: Front) -> None:
    node = require("node")
    async with front.served.http(OPERATOR) as http:
        run_id = await front.patient_run(http)
    token = front.served.headers(OPERATOR)["authorization"]
    process = await asyncio.create_subprocess_exec(
        node, "-e", VIEWERS, f"http://{front.address}", f"/events/runs/{run_id}", token, str(STREAMS),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            assert await process.stdout.readline() == b"all have begun\n"
            front.release.set()
            assert await process.stdout.readline() == b"all have ended\n"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
