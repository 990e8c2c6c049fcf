"""The HTTP gateway behind nginx, Caddy, HAProxy, Traefik and Envoy, with the configurations of deploy/proxies."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import pytest_asyncio

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.principal import Kind, Principal
from archon_services.gateway.front import body
from archon_services.testing.local_service import LocalService
from tests.fixtures.http_gateway import (
    OPERATOR,
    ORCHESTRATOR,
    VIEWER,
    EventReader,
    GatewayMesh,
    gateway_mesh,
    open_gateway,
    settings_for,
)
from tests.fixtures.http_proxies import COMMANDS, proxied
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import until

pytestmark = pytest.mark.search

JSON: Final = {"content-type": "application/json"}


class Front:
    """A proxy before two gateways of one mesh. `release` ends the tasks of the role `patient`."""

    def __init__(
        self, name: str, address: str, served: GatewayMesh, other: LocalService, release: asyncio.Event
    ) -> None:
        self.name, self.address, self.served, self.other, self.release = name, address, served, other, release

    def http(self, caller: Principal | None = None, **headers: str) -> httpx2.AsyncClient:
        own = self.served.headers(caller) if caller is not None else {}
        return httpx2.AsyncClient(base_url=f"http://{self.address}", headers={**own, **headers}, timeout=15.0)

    async def patient_run(self, http: httpx2.AsyncClient) -> str:
        """Submits a run that goes on until `release` is set."""
        self.release.clear()
        answer = await http.post(f"{ORCHESTRATOR}/SubmitRun", json={"goal": [{"text": "x"}], "roles": ["patient"]})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run"]["runId"])

    async def raw(self, *pieces: bytes, source: str = "127.0.0.1") -> bytes:
        """Sends bytes from an address of this machine. Returns what comes back until the connection ends, or nothing
        comes for a moment."""
        host, _, port = self.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
        received = b""
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            while piece := await asyncio.wait_for(reader.read(65_536), 2.0):
                received += piece
        except (TimeoutError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
        return received


@pytest_asyncio.fixture(scope="module", params=COMMANDS)
async def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Front]:
    folder = Path(tmp_path_factory.mktemp(request.param))
    port, first, second = free_ports(3)
    release = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        await release.wait()
        return "done"

    with pytest.MonkeyPatch.context() as monkeypatch:
        options: dict[str, Any] = {
            "trusted_proxies": "127.0.0.1",
            "http_drain_seconds": 4,
            "requests_per_second": 10_000.0,
        }
        async with gateway_mesh(folder, monkeypatch, port=first, **options) as served:
            settings = settings_for(served.mesh, port=second, **options)
            other = LocalService(open_gateway, **settings)
            await other.start()
            agent = AgentServer("patient", handler=wait, settings=AgentSettings(registry=served.mesh.registry.address))
            try:
                async with (
                    agent,
                    proxied(request.param, port, [served.gateway.address, other.address], folder) as address,
                ):
                    yield Front(request.param, address, served, other, release)
                    release.set()
            finally:
                await other.stop()


async def test_events_are_passed_on_as_they_come(front: Front) -> None:
    async with front.http(OPERATOR) as http:
        run_id = await front.patient_run(http)
        headers = {"accept-encoding": "gzip, br, zstd", "accept": "text/event-stream"}
        async with asyncio.timeout(10), http.stream("GET", f"/events/runs/{run_id}", headers=headers) as response:
            assert response.status_code == 200
            assert "content-encoding" not in response.headers
            reader = EventReader(response)
            assert (await reader.next())[1] == "1", "while the run waits"
            front.release.set()
            events = await reader.all()
    numbers = [int(number) for _, number, _ in events if number]
    assert numbers == list(range(2, len(numbers) + 2))
    assert events[-1][0] == "end"


async def test_streams_of_connect_and_grpc_web_are_passed_on(front: Front) -> None:
    async with front.http(OPERATOR) as http:
        run_id = await front.served.submit(http, wait="10s")
        message = json.dumps({"runId": run_id}).encode()
        envelope = b"\x00" + len(message).to_bytes(4, "big") + message
        for kind in ("application/connect+json", "application/grpc-web+json"):
            answer = await http.post(f"{ORCHESTRATOR}/WatchRun", content=envelope, headers={"content-type": kind})
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].startswith(kind)
            assert b"STATE_COMPLETED" in answer.content
            assert answer.content.rindex(b"\x02" if "connect" in kind else b"\x80") > len(answer.content) // 2


async def test_errors_and_large_requests_reach_the_gateway(front: Front) -> None:
    async with front.http(VIEWER) as http:
        missing = await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": "x"})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        large = await http.post(f"{ORCHESTRATOR}/ListRuns", content=b" " * (body.MAX_BODY + 1), headers=JSON)
        assert (large.status_code, large.json()["details"][0]["debug"]["reason"]) == (400, "MESSAGE_TOO_LARGE")
    async with front.http(VIEWER, cookie="x=" + "y" * 15_000) as http:
        assert (await http.get("/session")).json()["identity"] == "vera"
    async with front.http(OPERATOR) as http:
        text = "x" * 2_000_000
        run_id = await front.served.submit(http, text, wait="10s")
        answer = await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": run_id})
        assert len(answer.content) > 2_000_000


async def test_a_client_that_waits_for_100_continue_is_answered(front: Front) -> None:
    authorization = front.served.headers(VIEWER)["authorization"]
    head = f"POST {ORCHESTRATOR}/ListRuns HTTP/1.1\r\nhost: {front.address}\r\nauthorization: {authorization}\r\n"
    head += "content-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
    answer = await front.raw(head.encode(), b"{}")
    *_, final = [part for part in answer.split(b"HTTP/1.1 ") if part]
    assert final.startswith(b"200"), answer


async def test_a_target_that_is_a_url_is_served(front: Front) -> None:
    head = f"GET http://{front.address}/healthz HTTP/1.1\r\nhost: {front.address}\r\nconnection: close\r\n\r\n"
    assert b" 200 " in (await front.raw(head.encode()))[:15]


async def test_the_address_of_a_client_cannot_be_made_up(front: Front, caplog: pytest.LogCaptureFixture) -> None:
    head = f"GET /session HTTP/1.1\r\nhost: {front.address}\r\nx-forwarded-for: 6.6.6.6\r\nconnection: close\r\n\r\n"
    with caplog.at_level(logging.WARNING, "archon_services.gateway.front.rejections"):
        assert b" 401 " in (await front.raw(head.encode(), source="127.0.0.3"))[:15]
    [line] = [each.message for each in caplog.records if each.message.startswith("refused GET /session")][-1:]
    assert line == "refused GET /session of 127.0.0.3: 401"


SMUGGLED: Final = b"GET /session HTTP/1.1\r\nhost: 127.0.0.1\r\nx: "
ATTACKS: Final = {
    "CL.TE": b"content-length: %d\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE.CL": b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n2e\r\n" + SMUGGLED + b"\r\n0\r\n\r\n",
    "TE with a space": b"transfer-encoding : chunked\r\ncontent-length: %d\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE of another name": b"transfer-encoding: xchunked\r\ncontent-length: %d\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE twice": b"transfer-encoding: chunked\r\ntransfer-encoding: x\r\ncontent-length: %d\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "CL twice": b"content-length: 0\r\ncontent-length: %d\r\n\r\n" + SMUGGLED,
    "CL with a sign": b"content-length: +%d\r\n\r\n" + SMUGGLED,
    "bare LF in a chunk": b"transfer-encoding: chunked\r\n\r\n2;\nxx\r\n2e\r\n0\r\n\r\n" + SMUGGLED + b"\r\n0\r\n\r\n",
    "extension with a bare CR": b"transfer-encoding: chunked\r\n\r\n1;a\rb\r\nx\r\n0\r\n\r\n" + SMUGGLED,
    "bare LF in a header": b"x: y\ntransfer-encoding: chunked\r\ncontent-length: %d\r\n\r\n0\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_request_hides_in_another_one(front: Front, attack: str) -> None:
    text = ATTACKS[attack]
    if b"%d" in text:
        text = text % len(text.partition(b"\r\n\r\n")[2])
    head = f"POST {ORCHESTRATOR}/ListRuns HTTP/1.1\r\nhost: {front.address}\r\ncontent-type: application/json\r\n"
    callers = [Principal(Kind.VIEWER, f"ann-{number}") for number in range(4)]

    async def victim(caller: Principal) -> None:
        async with front.http(caller) as http:
            for _ in range(3):
                answer = await http.get("/session")
                assert (answer.status_code, answer.json()["identity"]) == (200, caller.identity), attack

    victims = asyncio.gather(*map(victim, callers))
    for answer in await asyncio.gather(*(front.raw(head.encode() + text) for _ in range(4))):
        assert answer.count(b"HTTP/1.1 ") <= 2, "one answer, or two where the rest is a request of the sender's own"
    await victims
    await asyncio.gather(*map(victim, callers))


class Viewer:
    """A viewer of a run, which connects again after the last event that it has seen, as a browser does."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.connections = 0

    async def view(self, http: httpx2.AsyncClient, run_id: str) -> None:
        """Views a run until it ends."""
        while True:
            headers = {"last-event-id": str(self.seen[-1])} if self.seen else {}
            async with http.stream("GET", f"/events/runs/{run_id}", headers=headers) as response:
                self.connections += 1
                if response.status_code == 204:
                    return
                assert response.status_code == 200, response.status_code
                reader = EventReader(response)
                try:
                    while (event := await reader.next())[0] != "end":
                        self.seen.extend([int(event[1])] if event[1] else [])
                except StopAsyncIteration:
                    continue
                return


async def test_viewers_go_on_at_the_other_replica(front: Front) -> None:
    """Last: it ends one of the two gateways."""
    refused: list[int] = []
    viewers = [Viewer() for _ in range(6)]
    async with front.http(OPERATOR) as http:
        run_id = await front.patient_run(http)
        tasks = [asyncio.create_task(viewer.view(http, run_id)) for viewer in viewers]
        await until(lambda: all(viewer.seen for viewer in viewers))

        async def call() -> None:
            while front.other.running:
                answer = await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": run_id})
                refused.extend([answer.status_code] if answer.status_code != 200 else [])

        await asyncio.gather(front.other.stop(), call())
        await until(lambda: sum(viewer.connections for viewer in viewers) > len(viewers))
        front.release.set()
        async with asyncio.timeout(20):
            await asyncio.gather(*tasks)
    assert refused == [], "no call fails while a replica ends"
    for viewer in viewers:
        assert viewer.seen == list(range(1, len(viewer.seen) + 1))
        assert len(viewer.seen) > 3
