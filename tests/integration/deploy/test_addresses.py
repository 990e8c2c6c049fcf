"""The address on which the manifests have processes listen."""

from __future__ import annotations

import asyncio
import socket

import pytest

from archon.loopback import is_free
from archon.server import GrpcServer
from tests.unit.deploy.manifests import environment, ours


async def test_processes_listen_on_ipv6_too(monkeypatch: pytest.MonkeyPatch) -> None:
    if not socket.has_ipv6 or not is_free("[::1]", 0):
        pytest.skip("this machine has no ::1")
    [host] = {environment(workload)["ARCHON_HOST"] for workload in ours()}
    monkeypatch.setenv("ARCHON_INSECURE", "1")
    server = GrpcServer([], host=host)
    await server.start()
    try:
        for address in ("127.0.0.1", "::1"):
            async with asyncio.timeout(5):
                _, writer = await asyncio.open_connection(address, server.port)
            writer.close()
    finally:
        await server.stop(0)
