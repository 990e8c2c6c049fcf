"""The stop of an HTTP gateway, and the parts of it that are loaded after its start."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from archon.errors import Unavailable
from archon_services.gateway import draining, optional_rooms
from archon_services.gateway.app import gateway_app
from archon_services.gateway.room import Room
from archon_services.gateway.settings import GatewaySettings
from tests.fixtures.http_gateway import ORCHESTRATOR, VIEWER, GatewayMesh, gateway_mesh, settings_for, watching
from tests.fixtures.ports import free_ports


async def test_a_gateway_that_drains_serves_on_and_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained, waited = asyncio.Event(), list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await drained.wait()

    monkeypatch.setattr(draining, "sleep", sleep)
    async with gateway_mesh(tmp_path, monkeypatch, http_drain_seconds=7) as served, served.http(VIEWER) as http:
        assert (await http.get("/readyz")).status_code == 200
        async with watching(http, "/events/registry") as reader:
            await reader.next()
            stopping = asyncio.create_task(served.gateway.stop())
            async with asyncio.timeout(10):
                while (ready := await http.get("/readyz")).status_code == 200:
                    pass
            assert (ready.status_code, ready.headers["connection"]) == (503, "close")
            assert (await http.get("/healthz")).status_code == 200
            listed = await http.post(f"{ORCHESTRATOR}/ListRuns", json={})
            assert (listed.status_code, listed.headers["connection"]) == (200, "close")
            drained.set()
            *_, (kind, _, data) = await reader.all()
        assert (kind, data["code"], waited) == ("failure", "unavailable", [7.0])
        await stopping


async def test_a_fault_of_a2a_is_told_at_the_start(served: GatewayMesh, tmp_path: Path) -> None:
    [port] = free_ports(1)
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    async with taken:
        with pytest.raises(Unavailable, match=f":{port}"):
            async with gateway_app(GatewaySettings(**settings_for(served.mesh, a2a_grpc_port=port))):
                pass


async def test_rooms_are_loaded_without_a_request(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = {room.name: asyncio.Event() for room in (optional_rooms.A2A, optional_rooms.MCP)}
    load = optional_rooms.OptionalRoom.load
    loop = asyncio.get_running_loop()

    def noted(self: optional_rooms.OptionalRoom) -> Room:
        room = load(self)
        loop.call_soon_threadsafe(loaded[self.name].set)
        return room

    monkeypatch.setattr(optional_rooms, "LATER", 0.0)
    monkeypatch.setattr(optional_rooms.OptionalRoom, "load", noted)
    async with gateway_app(GatewaySettings(**settings_for(served.mesh))), asyncio.timeout(20):
        for event in loaded.values():
            await event.wait()
    assert all(event.is_set() for event in loaded.values())


@pytest.mark.slow
def test_the_package_of_a2a_brings_no_database() -> None:
    code = "import sys; from archon_services.gateway import optional_rooms as r; assert 'a2a' not in sys.modules; "
    code += "r.A2A.load(); assert 'a2a' in sys.modules; print({'sqlalchemy', 'httpx._main'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
