"""Loopback addresses: of a machine with IPv4, and of one with IPv6 alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon import loopback
from archon.agent import AgentSettings
from archon.loopback import IPV4, IPV6, has_port, is_free, loopback_host, with_port
from archon.server import GrpcServer


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    loopback_host.cache_clear()
    yield
    loopback_host.cache_clear()


@pytest.mark.parametrize(
    ("addresses", "expected"), [({IPV4, IPV6}, IPV4), ({IPV4}, IPV4), ({IPV6}, IPV6), (set(), IPV4)]
)
def test_ipv6_is_taken_only_if_the_machine_has_it_alone(
    monkeypatch: pytest.MonkeyPatch, addresses: set[str], expected: str
) -> None:
    monkeypatch.setattr(loopback, "_is_missing", lambda host: host not in addresses)
    assert loopback_host() == expected
    assert AgentSettings.from_environment({}).host == AgentSettings().host == expected


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:7"), ("::1", "[::1]:7"), ("[::1]", "[::1]:7"), ("agent.example", "agent.example:7")],
)
def test_an_address_of_ipv6_has_brackets_before_its_port(host: str, address: str) -> None:
    assert with_port(host, 7) == address
    assert AgentSettings(advertise=host).advertised(7) == address
    assert AgentSettings(advertise=address).advertised(8) == address
    assert has_port(address)
    assert not has_port(host)


@pytest.mark.skipif(not is_free(IPV6, 0), reason="this machine has no ::1")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_a_server_listens_on_ipv6(host: str) -> None:
    server = GrpcServer([], host=host)
    address = await server.start()
    assert address == f"[::1]:{server.port}"
    assert not is_free(IPV6, server.port)
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    await server.stop(0)
