"""Runs whose details retention removed, as links, viewers and A2A clients see them: by their summaries."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from a2a.types import a2a_pb2
from a2a.utils.errors import A2AError

from archon_services.gateway.a2a import push_delivery
from archon_services.gateway.identity.share_link import link_principal
from tests.fixtures.a2a_mesh import Clerk, calling, state_of, text_of
from tests.fixtures.hook_server import HookServer
from tests.fixtures.http_gateway import OPERATOR, STRANGER, GatewayMesh, gateway_mesh
from tests.fixtures.waiting import eventually


@dataclass
class Office:
    """A mesh that removes the details of a run as soon as it has ended, its clerk, and a receiver of webhooks."""

    mesh: GatewayMesh
    clerk: Clerk
    hook: HookServer

    async def removed(self, run_id: str) -> None:
        """Waits until the details of a run were removed."""

        async def is_removed() -> bool:
            return (await self.mesh.mesh.client.get(run_id)).proto.details_removed

        await eventually(is_removed)


@pytest_asyncio.fixture(scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    clerk = Clerk()
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with HookServer() as hook:
            settings: dict[str, Any] = {
                "a2a_push_hosts": f"127.0.0.1:{hook.port}",
                "orchestrator": {"compact_after": 0.05},
            }
            folder = Path(tmp_path_factory.mktemp("removed"))
            async with gateway_mesh(folder, monkeypatch, **settings) as mesh, clerk.server(mesh):
                yield Office(mesh, clerk, hook)


async def test_a_link_has_the_summary_and_says_that_the_events_are_gone(office: Office) -> None:
    mesh = office.mesh
    assert mesh.keys is not None
    async with mesh.http(OPERATOR) as http:
        run_id = await mesh.submit(http, wait="10s")
    await office.removed(run_id)
    link = mesh.keys.token(link_principal(run_id, "olga", "default", time.time()), "shares", seconds=600.0)
    async with mesh.http() as http:
        run = (await http.get(f"/shared/{link}")).json()["run"]
        events = await http.get(f"/shared/{link}/events")
    assert run["answers"][0]["parts"][0]["text"] == "echo: hello" and run["detailsRemoved"]
    assert events.status_code == 400 and "were removed by retention" in events.json()["message"]
    async with mesh.http(OPERATOR) as http:
        viewed = await http.get(f"/events/runs/{run_id}", headers={"last-event-id": "2"})
    assert (viewed.status_code, viewed.json()["details"][0]["debug"]["reason"]) == (400, "RUN_EXPIRED")


async def test_an_a2a_client_gets_a_task_with_its_artifacts(office: Office) -> None:
    async with calling(office.mesh, OPERATOR) as caller:
        task = await caller.send("paint")
        await office.removed(task.id)
        again = await caller.get(task.id)
        assert (state_of(again), text_of(again)) == ("completed", "did: paint")
        assert [part.text for message in again.history for part in message.parts] == ["paint"]
        (listed,) = [each for each in (await caller.list(include_artifacts=True)).tasks if each.id == task.id]
        assert text_of(listed) == "did: paint"
        for refused in (caller.subscribe(task.id), caller.stream("more", task_id=task.id)):
            with pytest.raises(A2AError, match="has ended"):
                await anext(refused)
        with pytest.raises(A2AError):
            await caller.cancel(task.id)
    async with calling(office.mesh, STRANGER) as stranger:
        with pytest.raises(A2AError, match="no run"):
            await stranger.get(task.id)


@pytest.mark.search
async def test_the_end_is_pushed_from_the_summary(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_delivery, "LEASE", 0.3)
    monkeypatch.setattr(push_delivery, "SCAN", 0.05)
    office.hook.requests.clear()
    config = a2a_pb2.TaskPushNotificationConfig(url=office.hook.url)
    asks = a2a_pb2.SendMessageConfiguration(task_push_notification_config=config, return_immediately=True)
    async with calling(office.mesh, OPERATOR, streaming=False) as caller:
        task = await caller.send("ask", configuration=asks)

        async def asked() -> bool:
            return any(b"INPUT_REQUIRED" in body for _, body in office.hook.requests)

        await eventually(asked)
    await office.mesh.gateway.kill()
    await office.mesh.mesh.client.respond(task.id, f"{task.id}.1/colour", "blue")
    await office.removed(task.id)
    await office.mesh.gateway.start()

    def pushed() -> list[dict[str, dict[str, object]]]:
        return [json.loads(body) for _, body in office.hook.requests]

    async def ended() -> bool:
        return any(b"TASK_STATE_COMPLETED" in body for _, body in office.hook.requests)

    await eventually(ended)
    artifacts = [event["artifactUpdate"]["artifact"] for event in pushed() if "artifactUpdate" in event]
    assert [each["parts"] for each in artifacts] == [[{"text": "painted blue"}]]  # type: ignore[index]
