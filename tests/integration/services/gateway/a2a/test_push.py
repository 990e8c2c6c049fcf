"""Push notifications: each event of a task goes to the webhook, whatever replica has taken the config."""

from __future__ import annotations

import json

import pytest
from a2a.types import a2a_pb2
from a2a.utils.errors import A2AError

from archon_services.gateway.a2a import push_delivery, push_store
from archon_services.testing.local_service import LocalService
from tests.fixtures.a2a_mesh import GRPC, calling, state_of
from tests.fixtures.http_gateway import OPERATOR, STRANGER, open_gateway
from tests.fixtures.waiting import eventually
from tests.integration.services.gateway.a2a.conftest import Office


def configured(office: Office, token: str = "") -> a2a_pb2.SendMessageConfiguration:
    config = a2a_pb2.TaskPushNotificationConfig(url=office.hook.url, token=token)
    config.authentication.scheme, config.authentication.credentials = "Bearer", "of-the-hook"
    return a2a_pb2.SendMessageConfiguration(task_push_notification_config=config, return_immediately=True)


def states(office: Office, task_id: str) -> list[str]:
    """The states of a task that the webhook was told."""
    events = [json.loads(body) for _, body in office.hook.requests]
    updates = [event["statusUpdate"] for event in events if "statusUpdate" in event]
    return [each["status"]["state"].removeprefix("TASK_STATE_") for each in updates if each["taskId"] == task_id]


@pytest.mark.parametrize("binding", ["JSONRPC", pytest.param(GRPC, marks=pytest.mark.slow)])
async def test_each_event_goes_to_the_webhook_in_order(office: Office, binding: str) -> None:
    office.hook.requests.clear()
    async with calling(office.mesh, OPERATOR, binding=binding, streaming=False) as caller:
        task = await caller.send("ask", configuration=configured(office, token="t-1"))

        async def asked() -> bool:
            return states(office, task.id)[-1:] == ["INPUT_REQUIRED"]

        await eventually(asked)
        await caller.send("blue", task_id=task.id)

        async def done() -> bool:
            return states(office, task.id)[-1:] == ["COMPLETED"]

        await eventually(done)
    assert states(office, task.id)[-3:] == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
    headers, _ = office.hook.requests[-1]
    assert (headers["x-a2a-notification-token"], headers["authorization"]) == ("t-1", "Bearer of-the-hook")
    artifacts = [json.loads(body) for _, body in office.hook.requests if b"artifactUpdate" in body]
    assert artifacts[0]["artifactUpdate"]["artifact"]["parts"] == [{"text": "painted blue"}]


async def test_configs_are_created_listed_and_deleted(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_store, "MAX_CONFIGS", 2)
    async with calling(office.mesh, OPERATOR) as caller:
        task = await caller.send("paint")
        made = await caller.client.create_task_push_notification_config(
            a2a_pb2.TaskPushNotificationConfig(task_id=task.id, id="one", url=office.hook.url), context=caller.context
        )
        listing = a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        listed = await caller.client.list_task_push_notification_configs(listing, context=caller.context)
        assert list(listed.configs) == [made]
        get = a2a_pb2.GetTaskPushNotificationConfigRequest(task_id=task.id, id="one")
        async with calling(office.mesh, STRANGER) as stranger:
            with pytest.raises(A2AError, match="no run"):
                await stranger.client.get_task_push_notification_config(get, context=stranger.context)
        more = a2a_pb2.TaskPushNotificationConfig(task_id=task.id, id="two", url=office.hook.url)
        await caller.client.create_task_push_notification_config(more, context=caller.context)
        more.id = "three"
        with pytest.raises(Exception, match="at most 2"):
            await caller.client.create_task_push_notification_config(more, context=caller.context)
        delete = a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="one")
        await caller.client.delete_task_push_notification_config(delete, context=caller.context)
        with pytest.raises(A2AError, match="no push notification config"):
            await caller.client.get_task_push_notification_config(get, context=caller.context)


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest",
        "file:///etc/passwd",
    ],
)
async def test_a_webhook_at_a_private_address_is_refused(office: Office, url: str) -> None:
    config = a2a_pb2.SendMessageConfiguration(
        task_push_notification_config=a2a_pb2.TaskPushNotificationConfig(url=url), return_immediately=True
    )
    async with calling(office.mesh, OPERATOR, streaming=False) as caller:
        with pytest.raises(A2AError, match=r"webhook"):
            await caller.send("paint", context_id="refused", configuration=config)
        assert not (await caller.list(context_id="refused")).tasks


async def test_another_replica_goes_on_after_a_crash(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_delivery, "LEASE", 0.3)
    monkeypatch.setattr(push_delivery, "SCAN", 0.1)
    office.hook.requests.clear()
    replicas = [LocalService(open_gateway, **office.mesh.gateway.settings) for _ in range(2)]
    for replica in replicas:
        await replica.start()
    first, second = replicas
    try:
        async with calling(office.mesh, OPERATOR, url=f"http://{first.address}", streaming=False) as caller:
            task = await caller.send("ask", configuration=configured(office))

            async def asked() -> bool:
                return states(office, task.id)[-1:] == ["INPUT_REQUIRED"]

            await eventually(asked)
        await first.kill()
        async with calling(office.mesh, OPERATOR, url=f"http://{second.address}", streaming=False) as caller:
            assert state_of(await caller.get(task.id)) == "input_required"
            await caller.send("green", task_id=task.id)

        async def done() -> bool:
            return states(office, task.id)[-1:] == ["COMPLETED"]

        await eventually(done)
        assert states(office, task.id).count("COMPLETED") == 1
    finally:
        for replica in replicas:
            await replica.stop()


async def test_a_task_survives_the_crash_of_the_orchestrator(office: Office) -> None:
    async with calling(office.mesh, OPERATOR, binding="HTTP+JSON", streaming=False) as caller:
        task = await caller.send("ask")
        await office.mesh.mesh.orchestrator.kill()
        await office.mesh.mesh.orchestrator.start()
        done = await caller.send("red", task_id=task.id)
        assert state_of(done) == "completed"
