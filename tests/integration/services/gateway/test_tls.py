"""HTTPS at the HTTP gateway: whom it serves, with which certificate, and how that is renewed."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx2
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon.errors import ArchonError, FailedPrecondition
from archon_services.gateway import serving, tls
from archon_services.gateway.app import gateway_app
from archon_services.gateway.identity.logins import issue
from archon_services.gateway.settings import GatewaySettings
from archon_services.gateway.tls import ServerCertificate
from archon_services.local_mesh.authority import Authority
from tests.fixtures.http_gateway import OPERATOR, VIEWER, GatewayMesh, gateway_mesh, settings_for, watching
from tests.fixtures.ports import free_ports

NAMES = ("localhost", "127.0.0.1")


class Https:
    """A gateway that serves https, and the authority of its certificate in `folder`."""

    def __init__(self, served: GatewayMesh, authority: Authority, folder: Path) -> None:
        self.served, self.authority, self.folder = served, authority, folder

    def context(self) -> ssl.SSLContext:
        """The context of a client that trusts the authority."""
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    def issue(self, folder: Path | None = None) -> int:
        """Writes a new certificate. Returns its serial number."""
        now = datetime.datetime.now(datetime.UTC)
        return self.authority.issue_server(folder or self.folder, NAMES, now=now, days=1.0).serial_number

    async def serial(self, context: ssl.SSLContext | None = None) -> int:
        """Connects. Returns the serial number of the certificate that the gateway shows."""
        host, _, port = self.served.gateway.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context or self.context())
        try:
            connection = writer.get_extra_info("ssl_object")
            assert connection.selected_alpn_protocol() in (None, "http/1.1")
            return int(connection.getpeercert()["serialNumber"], 16)
        finally:
            writer.close()


@pytest_asyncio.fixture(scope="module")
async def https(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Https]:
    folder = Path(tmp_path_factory.mktemp("https"))
    authority = Authority.create("mesh", now=datetime.datetime.now(datetime.UTC))
    with pytest.MonkeyPatch.context() as monkeypatch:
        authority.issue_server(folder / "tls", NAMES, now=datetime.datetime.now(datetime.UTC), days=1.0)
        async with gateway_mesh(folder, monkeypatch, http_tls=str(folder / "tls")) as served:
            yield Https(served, authority, folder / "tls")


async def test_a_client_without_a_certificate_is_served(https: Https) -> None:
    served = https.served
    async with served.http(OPERATOR, verify=https.context()) as http:
        run_id = await served.submit(http, wait="10s")
        async with watching(http, f"/events/runs/{run_id}") as reader:
            assert (await reader.all())[-1][0] == "end"
        assert "strict-transport-security" not in (await http.get("/session")).headers, "localhost has other servers"


async def test_a_session_is_for_https_alone(https: Https) -> None:
    assert https.served.keys is not None
    code = issue(https.served.mesh.home / "logins", https.served.keys.token(VIEWER))
    async with https.served.http(verify=https.context()) as http:
        answer = await http.get(f"/login/once?code={code}")
        [cookie, *_] = answer.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-")
        assert {"Secure", "HttpOnly", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        own = {"origin": https.served.url}
        assert (await http.post("/logout", headers=own)).status_code == 204
        assert (
            await http.post("/logout", headers={"origin": https.served.url.replace("https", "http")})
        ).status_code == 403


async def test_clear_text_and_old_versions_are_refused(https: Https) -> None:
    host, _, port = https.served.gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(5):
        assert b"HTTP" not in await reader.read()
    writer.close()
    old = https.context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await https.serial(old)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        await https.serial(old)
    stranger = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await https.serial(stranger)


async def test_replaced_files_are_used_from_the_next_connection_on(
    https: Https, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "INTERVAL", 0.0)
    async with https.served.http(VIEWER, verify=https.context()) as http, watching(http, "/events/registry") as reader:
        await reader.next()
        before = await https.serial()
        expected = https.issue()
        assert await https.serial() == expected != before
        key = (https.folder / "tls.key").read_bytes()
        for half in (key[: len(key) // 2], b"", _other_key(https)):
            (https.folder / "tls.key").write_bytes(half)
            assert await https.serial() == expected
        (https.folder / "tls.key").unlink()
        assert await https.serial() == expected
        assert len([each for each in caplog.records if "stays in use" in each.message]) == 1
        renewed = https.issue()
        assert await https.serial() == renewed
        assert (await http.get("/healthz")).status_code == 200, "a connection of before goes on"


def _other_key(https: Https) -> bytes:
    https.issue(https.folder.parent / "other")
    return (https.folder.parent / "other" / "tls.key").read_bytes()


async def test_a2a_over_grpc_has_the_same_certificate(https: Https, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    settings = settings_for(https.served.mesh, http_tls=str(https.folder), a2a_grpc_port=port)
    https.issue()
    async with gateway_app(GatewaySettings(**settings)):
        trusted = grpc.ssl_channel_credentials((https.folder / "ca.crt").read_bytes())
        async with grpc.aio.secure_channel(f"localhost:{port}", trusted) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
            with pytest.raises((grpc.aio.AioRpcError, ArchonError)):
                clear: Any = health_pb2_grpc.HealthStub(channel)
                await clear.Check(health_pb2.HealthCheckRequest(), timeout=2)


async def test_a_gateway_that_others_reach_needs_tls_or_consent(https: Https) -> None:
    settings = settings_for(https.served.mesh, host="0.0.0.0")
    with pytest.raises(FailedPrecondition, match="clear text"):
        async with gateway_app(GatewaySettings(**settings)):
            pass
    https.issue()
    async with (
        gateway_app(GatewaySettings(**settings, http_tls=str(https.folder))) as address,
        httpx2.AsyncClient(base_url=f"https://localhost:{address.rpartition(':')[2]}", verify=https.context()) as http,
    ):
        answer = await http.get("/healthz", headers={"host": "10.1.2.3"})
    assert answer.status_code == 200
    assert answer.headers["strict-transport-security"].startswith("max-age=")


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"])
def test_a_certificate_without_its_key_is_not_served(https: Https, tmp_path: Path, content: bytes | None) -> None:
    https.issue(tmp_path)
    (tmp_path / "tls.key").unlink()
    if content is not None:
        (tmp_path / "tls.key").write_bytes(content)
    with pytest.raises(FailedPrecondition, match="cannot use the certificate in"):
        ServerCertificate(tmp_path)
    assert tls.own_certificate("") is None


async def test_a_handshake_that_does_not_end_is_cut_off(https: Https, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HANDSHAKE_SECONDS", 0.1)
    https.issue()
    async with gateway_app(GatewaySettings(**settings_for(https.served.mesh, http_tls=str(https.folder)))) as address:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
