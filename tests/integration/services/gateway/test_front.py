"""The front of the HTTP gateway: slow, large, malformed and too many requests, pages of other origins, and its stop."""

from __future__ import annotations

import asyncio
import gzip
import time
from pathlib import Path

import pytest

from archon.principal import Kind, Principal
from archon_services.gateway import connections
from archon_services.gateway.front import body
from archon_services.gateway.watches import hub
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, VIEWER, GatewayMesh, gateway_mesh, watching
from tests.fixtures.waiting import until

LIST_RUNS = f"{ORCHESTRATOR}/ListRuns"
JSON = {"content-type": "application/json"}


async def _raw(served: GatewayMesh, sent: bytes) -> bytes:
    """Sends bytes and returns all that comes back until the connection ends."""
    host, _, port = served.gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(sent)
        await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_slow_headers_are_cut_off(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    assert await _raw(served, b"POST / HTTP/1.1\r\nhost: localhost\r\nx-slow: ") == b""
    assert await _raw(served, b"") == b""


async def test_a_slow_body_is_an_error(tmp_path: Path) -> None:
    async with gateway_mesh(tmp_path, body_seconds=0.1) as served:
        head = f"POST {LIST_RUNS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        answer = await _raw(served, f"{head}content-length: 9\r\nconnection: close\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 504")
    assert b"did not arrive within" in answer


async def test_a_body_above_the_limit_is_refused(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        large = await http.post(LIST_RUNS, content=b" " * (body.MAX_BODY + 1), headers=JSON)
        bomb = gzip.compress(b" " * 8_000_000)
        unpacked = await http.post(LIST_RUNS, content=bomb, headers={**JSON, "content-encoding": "gzip"})
    assert (large.status_code, large.json()["details"][0]["debug"]["reason"]) == (400, "MESSAGE_TOO_LARGE")
    assert (unpacked.status_code, unpacked.json()["code"]) == (429, "resource_exhausted")


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\nconnection: close\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET /session HTTP/1.1\r\nhost: localhost\r\nx: \xff\xfe\r\nconnection: close\r\n\r\n",
        b"GET /session HTTP/1.1\r\nhost: localhost\r\nauthorization: a\r\nauthorization: b\r\nconnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 70_000,
    ],
)
async def test_a_malformed_request_is_a_bad_request(served: GatewayMesh, sent: bytes) -> None:
    assert (await _raw(served, sent)).startswith(b"HTTP/1.1 400")


async def test_no_path_leads_to_a_file(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/events/runs/..%2f..%2fx", "//etc/passwd"):
            assert (await http.get(path)).status_code == 404, path


async def test_an_identity_with_too_many_requests_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gateway_mesh(tmp_path, monkeypatch, requests_per_second=0.5, streams=1) as served:
        async with served.http(VIEWER) as http:
            statuses = [(await http.get("/session")).status_code for _ in range(3)]
            refused = await http.post(LIST_RUNS, json={})
        assert statuses == [200, 200, 429]
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        async with served.http(Principal(Kind.OPERATOR, "other")) as other, watching(other, "/events/registry"):
            second = await other.get("/events/registry")
        assert second.json()["details"][0]["debug"]["reason"] == "TOO_MANY_REQUESTS"


async def test_another_origin_calls_with_a_token_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = {"origin": "https://app.example.com", "sec-fetch-site": "cross-site"}
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-grpc-web"}
    opened = gateway_mesh(tmp_path, monkeypatch, origins="https://app.example.com")
    async with opened as served, served.http(VIEWER) as http:
        preflight = await http.options(LIST_RUNS, headers={**page, **asks})
        called = await http.post(LIST_RUNS, json={}, headers=page)
        failed = await http.post(f"{ORCHESTRATOR}/GetRun", json={}, headers=page)
        foreign = await http.options(LIST_RUNS, headers={**asks, **page, "origin": "https://evil.example"})
    assert preflight.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "x-grpc-web" in preflight.headers["access-control-allow-headers"].lower()
    for answer in (called, failed):
        assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
        assert "grpc-status" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
    assert "access-control-allow-origin" not in foreign.headers


async def test_streams_end_at_once_when_the_gateway_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        gateway_mesh(tmp_path, monkeypatch) as served,
        served.http(VIEWER) as http,
        watching(http, "/events/registry") as reader,
    ):
        await reader.next()
        began = time.monotonic()
        await served.gateway.stop()
        *_, (kind, _, data) = await reader.all()
    assert (kind, data["code"]) == ("failure", "unavailable")
    assert time.monotonic() - began < 5


async def test_a_viewer_that_goes_away_leaves_nothing(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "LINGER", 0.01)
    head = "GET /events/registry HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n\r\n"
    token = served.headers(OPERATOR)["authorization"]
    host, _, port = served.gateway.address.rpartition(":")
    tasks = len(asyncio.all_tasks())
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.format(token).encode())
        await reader.readuntil(b"data:")
        writer.transport.abort()
    await until(lambda: len(asyncio.all_tasks()) <= tasks + 3)
    assert len(asyncio.all_tasks()) <= tasks + 3


@pytest.mark.slow
async def test_a_viewer_that_reads_nothing_is_cut_off(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str] = []
    ended = connections.TimedProtocol.connection_lost

    def connection_lost(self: connections.TimedProtocol, error: Exception | None) -> None:
        lost.append(self.scope["path"])
        ended(self, error)

    monkeypatch.setattr(connections.TimedProtocol, "connection_lost", connection_lost)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.1)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, "x" * 3_000_000, wait="10s")
    host, _, port = served.gateway.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1_000)
    token = served.headers(OPERATOR)["authorization"]
    writer.write(f"GET /events/runs/{run_id} HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n".encode())
    await until(lambda: f"/events/runs/{run_id}" in lost)
    writer.close()
    assert lost.count(f"/events/runs/{run_id}") == 1
