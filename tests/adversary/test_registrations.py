"""A registration belongs to the client that made it: strangers can neither renew, move nor end it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from archon import status
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.api.registry.v1.registry_pb2 import Registration as Message
from archon.channel import connect
from archon.errors import ArchonError, InvalidArgument, PermissionDenied, ResourceExhausted
from archon.registry import RegistryClient
from archon_services.registry import registry_app
from tests.fixtures.registry import Make, client, make, prefix, registry, registry_store, settings
from tests.fixtures.services import ServiceProcess

__all__ = ["client", "make", "prefix", "registry", "registry_store"]

TOKEN = "a secret of the owner"


@pytest.fixture
async def stub(registry: str) -> AsyncIterator[Any]:
    async with connect(registry) as channel:
        yield registry_service_pb2_grpc.RegistryServiceStub(channel)


def message(address: str = "127.0.0.1:7000", **fields: Any) -> Message:
    return Message(instance_id="designer-1", role="designer", address=address, **fields)


async def refused(call: Any) -> ArchonError:
    """Returns the error of a call."""
    with pytest.raises(ArchonError) as caught:
        await call
    return caught.value


async def leases(stub: Any, token: str) -> list[bool]:
    """Renews by KeepAlive; returns whether each lease is alive."""
    request = pb.KeepAliveRequest(instance_ids=["designer-1"], tokens=[token] if token else [])
    return [not lease.expired async for answer in stub.KeepAlive(iter([request])) for lease in answer.leases]


@pytest.mark.parametrize("token", ["", "a secret of a stranger"])
async def test_a_stranger_can_neither_move_nor_renew_nor_end_it(stub: Any, token: str) -> None:
    await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message(), token=TOKEN))
    moved = pb.RegisterInstanceRequest(registration=message("127.0.0.1:6666"), token=token)
    assert isinstance(await refused(stub.RegisterInstance(moved)), PermissionDenied)
    again = pb.RegisterInstanceRequest(registration=message(), token=token)
    assert isinstance(await refused(stub.RegisterInstance(again)), PermissionDenied)
    assert await leases(stub, token) == [False]
    end = pb.DeregisterInstanceRequest(instance_id="designer-1", token=token)
    assert isinstance(await refused(stub.DeregisterInstance(end)), PermissionDenied)
    (listed,) = (await stub.ListInstances(pb.ListInstancesRequest())).instances
    assert listed.address == "127.0.0.1:7000"


async def test_the_owner_can_renew_move_and_end_it(stub: Any) -> None:
    for _ in range(2):
        response = await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message(), token=TOKEN))
        assert response.token == "", "the client has chosen the token"
    assert await leases(stub, TOKEN) == [True]
    moved = pb.RegisterInstanceRequest(registration=message("127.0.0.1:7001"), token=TOKEN)
    assert (await stub.RegisterInstance(moved)).registration.address == "127.0.0.1:7001"
    await stub.DeregisterInstance(pb.DeregisterInstanceRequest(instance_id="designer-1", token=TOKEN))
    assert not (await stub.ListInstances(pb.ListInstancesRequest())).instances


async def test_a_member_without_tokens_renews_and_needs_the_issued_one_to_change(stub: Any) -> None:
    first = await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message()))
    assert len(first.token) >= 24
    again = await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message()))
    assert again.token == "", "a token is issued once: a stranger could send the same registration"
    assert again.registration.revision == first.registration.revision
    assert await leases(stub, "") == [True]
    moved = message("127.0.0.1:7001")
    assert isinstance(
        await refused(stub.RegisterInstance(pb.RegisterInstanceRequest(registration=moved))), PermissionDenied
    )
    end = pb.DeregisterInstanceRequest(instance_id="designer-1")
    assert isinstance(await refused(stub.DeregisterInstance(end)), PermissionDenied)
    await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=moved, token=first.token))
    end.token = first.token
    await stub.DeregisterInstance(end)
    assert not (await stub.ListInstances(pb.ListInstancesRequest())).instances


@pytest.mark.parametrize("count", [1, 3])
async def test_other_than_one_token_for_each_lease_is_refused(stub: Any, count: int) -> None:
    request = pb.KeepAliveRequest(instance_ids=["a", "b"], tokens=["x"] * count)
    with pytest.raises(grpc.aio.AioRpcError) as refused_stream:
        async for _ in stub.KeepAlive(iter([request])):
            pass
    error = status.from_rpc_error(refused_stream.value)
    assert isinstance(error, InvalidArgument)
    assert [violation.field for violation in error.field_violations] == ["tokens"]


async def test_no_response_and_no_error_has_the_token(stub: Any) -> None:
    response = await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message(), token=TOKEN))
    listed = await stub.ListInstances(pb.ListInstancesRequest())
    error = await refused(stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message(), token="short")))
    assert isinstance(error, InvalidArgument)
    assert TOKEN not in f"{response}{listed}"
    assert "short" not in str(error)


async def test_clients_of_the_sdk_own_what_they_register(client: RegistryClient, registry: str, make: Make) -> None:
    handle = await client.register(make("writer"))
    async with RegistryClient(registry) as stranger:
        with pytest.raises(PermissionDenied):
            await stranger.register(handle.registration)
    assert [instance.instance_id for instance in await client.list_instances()] == [handle.instance_id]


async def test_pins_are_logged_with_the_caller(client: RegistryClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await client.pin_edges([("a", "b")])
        await client.unpin_edges([("a", "b")])
    assert "anonymous pinned the edges a -> b" in caplog.text
    assert "anonymous unpinned the edges a -> b" in caplog.text


NOT_DIALLED = ["0.0.0.0:7000", "[::]:7000", "169.254.169.254:80", "[fe80::1]:80", "[::ffff:169.254.169.254]:80"]


@pytest.mark.parametrize("address", [*NOT_DIALLED, "224.0.0.1:80"])
async def test_an_address_that_no_machine_may_dial_is_refused(stub: Any, address: str) -> None:
    error = await refused(stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message(address))))
    assert isinstance(error, InvalidArgument)
    assert [violation.field for violation in error.field_violations] == ["registration.address"]


@pytest.mark.parametrize("address", ["127.0.0.1:7000", "[::1]:7000", "localhost:7000", "127.1.2.3:7000"])
async def test_loopback_is_refused_if_the_registry_serves_other_machines(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHON_INSECURE", "1")
    request = pb.RegisterInstanceRequest(registration=message(address))
    for host, accepted in (("127.0.0.1", True), ("0.0.0.0", False)):
        async with (
            registry_app(settings(etcd="memory", host=host, port=0)) as served,
            connect(f"127.0.0.1:{served.rpartition(':')[2]}") as channel,
        ):
            stub: Any = registry_service_pb2_grpc.RegistryServiceStub(channel)
            if accepted:
                await stub.RegisterInstance(request)
            else:
                assert "loopback" in str((await refused(stub.RegisterInstance(request))).field_violations)


async def test_a_client_cannot_fill_the_registry_of_a_real_process(tmp_path: Path) -> None:
    bounds = {"ARCHON_MAX_INSTANCES_PER_CLIENT": "3", "ARCHON_MAX_INSTANCES_PER_ROLE": "2"}
    process = ServiceProcess("archon_services.registry", tmp_path, ARCHON_ETCD="memory", **bounds)
    try:
        async with connect(await process.start()) as channel:
            stub: Any = registry_service_pb2_grpc.RegistryServiceStub(channel)
            for number, role in enumerate(("a", "a", "b")):
                entry = Message(instance_id=f"i{number}", role=role, address="127.0.0.1:7000")
                await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=entry, token=TOKEN))
            for role, setting in (("a", "max_instances_per_role"), ("b", "max_instances_per_client")):
                entry = Message(instance_id="more", role=role, address="127.0.0.1:7000")
                error = await refused(stub.RegisterInstance(pb.RegisterInstanceRequest(registration=entry)))
                assert isinstance(error, ResourceExhausted)
                assert (error.metadata["setting"], bool(error.retry_delay)) == (setting, True)
    finally:
        await process.close()
