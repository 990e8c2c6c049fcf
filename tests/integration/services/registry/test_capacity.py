"""Bounds on the number of instances, over each store and a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.api.registry.v1.registry_pb2 import Registration
from archon.channel import connect
from archon.errors import QuotaExceeded, ResourceExhausted
from archon_services.registry import registry_app
from archon_services.testing import EtcdProcess
from tests.fixtures.registry import settings
from tests.fixtures.waiting import Eventually

TOKEN = "a secret of the owner"


@pytest.fixture
async def stub(registry_store: str, prefix: str) -> AsyncIterator[Any]:
    """A registry that takes three instances of one host, and two of a role."""
    bounded = settings(etcd=registry_store, prefix=prefix, max_instances_per_role=2, max_instances_per_client=3)
    async with registry_app(bounded) as address, connect(address) as channel:
        yield registry_service_pb2_grpc.RegistryServiceStub(channel)


def request(instance_id: str, role: str, *, ttl: int = 10, port: int = 7000) -> pb.RegisterInstanceRequest:
    registration = Registration(instance_id=instance_id, role=role, address=f"127.0.0.1:{port}")
    registration.ttl.FromSeconds(ttl)
    return pb.RegisterInstanceRequest(registration=registration, token=TOKEN)


async def refused(stub: Any, instance_id: str, role: str) -> str:
    """Registers above a bound; returns the setting that the error names."""
    with pytest.raises(ResourceExhausted) as caught:
        await stub.RegisterInstance(request(instance_id, role))
    assert caught.value.retry_delay
    return caught.value.metadata["setting"]


async def test_instances_per_role_and_client_are_bounded(stub: Any) -> None:
    for instance_id in ("a", "b"):
        await stub.RegisterInstance(request(instance_id, "r"))
    assert await refused(stub, "c", "r") == "max_instances_per_role"
    await stub.RegisterInstance(request("c", "s"))
    assert await refused(stub, "d", "s") == "max_instances_per_client"
    listed = await stub.ListInstances(pb.ListInstancesRequest())
    assert [instance.instance_id for instance in listed.instances] == ["a", "b", "c"]


async def test_a_registered_instance_renews_and_changes_at_the_bound(stub: Any) -> None:
    for instance_id in ("a", "b"):
        await stub.RegisterInstance(request(instance_id, "r"))
    await stub.RegisterInstance(request("a", "r"))
    moved = await stub.RegisterInstance(request("a", "r", port=7001))
    assert moved.registration.address == "127.0.0.1:7001"


async def test_the_place_of_an_ended_instance_is_free(stub: Any, eventually: Eventually) -> None:
    await stub.RegisterInstance(request("a", "r"))
    await stub.RegisterInstance(request("b", "r", ttl=1))
    await stub.DeregisterInstance(pb.DeregisterInstanceRequest(instance_id="a", token=TOKEN))
    await stub.RegisterInstance(request("c", "r"))

    async def expired() -> bool:
        return len((await stub.ListInstances(pb.ListInstancesRequest())).instances) == 1

    await eventually(expired, 60)
    registered = await stub.RegisterInstance(request("d", "r"))
    assert registered.registration.instance_id == "d"


async def test_instances_of_a_tenant_are_bounded(registry_store: str, prefix: str, tmp_path: Path) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text("tenants: {default: {instances: 2}}")
    bounded = settings(etcd=registry_store, prefix=prefix, quotas=str(file))
    async with registry_app(bounded) as address, connect(address) as channel:
        stub = registry_service_pb2_grpc.RegistryServiceStub(channel)
        await stub.RegisterInstance(request("a", "r"))
        await stub.RegisterInstance(request("b", "s"))
        with pytest.raises(QuotaExceeded) as caught:
            await stub.RegisterInstance(request("c", "t"))
        assert caught.value.metadata == {"quota": "instances", "limit": "2", "used": "2", "tenant": "default"}
        assert caught.value.retry_delay
        await stub.RegisterInstance(request("a", "r"))
        await stub.DeregisterInstance(pb.DeregisterInstanceRequest(instance_id="b", token=TOKEN))
        await stub.RegisterInstance(request("c", "t"))


async def test_a_restarted_registry_knows_who_registered(etcd: EtcdProcess, prefix: str) -> None:
    bounded = settings(etcd=etcd.address, prefix=prefix, max_instances_per_client=1)
    async with registry_app(bounded) as address, connect(address) as channel:
        await registry_service_pb2_grpc.RegistryServiceStub(channel).RegisterInstance(request("a", "r"))
    async with registry_app(bounded) as address, connect(address) as channel:
        stub = registry_service_pb2_grpc.RegistryServiceStub(channel)
        assert await refused(stub, "b", "r") == "max_instances_per_client"
        (listed,) = (await stub.ListInstances(pb.ListInstancesRequest())).instances
        assert "localhost" not in str(listed), "the host stays inside the registry"
