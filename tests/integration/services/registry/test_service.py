"""The registry as a service: over gRPC, and as a process with a real etcd."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import networkx as nx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon import status
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.api.registry.v1.registry_pb2 import Registration as Message
from archon.channel import connect
from archon.errors import ArchonError, GraphCycle, InvalidArgument, Unavailable
from archon.registry import Registration, RegistryClient
from archon_services.registry import registry_app
from archon_services.testing import EtcdProcess
from tests.fixtures.registry import Make, settings
from tests.fixtures.waiting import Eventually

SERVICE = "/archon.api.registry.v1.RegistryService"


@pytest.fixture
async def stub(registry: str) -> AsyncIterator[Any]:
    async with connect(registry) as channel:
        yield registry_service_pb2_grpc.RegistryServiceStub(channel)


async def error_of(call: Any) -> ArchonError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    return status.from_rpc_error(caught.value)


@pytest.mark.parametrize("method", ["RegisterInstance", "ResolveInstances", "PinEdges"])
async def test_malformed_request_is_a_typed_error(registry: str, method: str) -> None:
    async with grpc.aio.insecure_channel(registry) as channel:
        call: Any = channel.unary_unary(f"{SERVICE}/{method}")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\xff\xff\xff", timeout=5)
        error = status.from_rpc_error(caught.value)
        assert (type(error).__mro__[1], error.reason) == (InvalidArgument, "MALFORMED_MESSAGE")


@pytest.mark.parametrize("method", ["KeepAlive", "Watch"])
async def test_malformed_message_ends_a_stream_with_a_typed_error(registry: str, method: str) -> None:
    async with grpc.aio.insecure_channel(registry) as channel:
        call: Any
        if method == "KeepAlive":
            call = channel.stream_stream(f"{SERVICE}/{method}")
            responses = call(iter([b"\xff\xff"]), timeout=5)
        else:
            call = channel.unary_stream(f"{SERVICE}/{method}")
            responses = call(b"\xff\xff", timeout=5)
        assert (await error_of(responses)).reason == "MALFORMED_MESSAGE"


async def test_keep_alive_answers_each_message_with_expired_leases(stub: Any, registry: str, make: Make) -> None:
    async with RegistryClient(registry) as client:
        handle = await client.register(make("r"))

        def request(ids: list[str]) -> pb.KeepAliveRequest:
            return pb.KeepAliveRequest(instance_ids=ids, tokens=[handle.token] * len(ids))

        names = [["unknown", handle.instance_id], [handle.instance_id], []]
        leases = [
            [(lease.instance_id, lease.expired, lease.ttl.seconds) for lease in response.leases]
            async for response in stub.KeepAlive(iter([request(ids) for ids in names]))
        ]
    alive = (handle.instance_id, False, 10)
    assert leases == [[("unknown", True, 0), alive], [alive], []]


@pytest.mark.parametrize("ids", [["i"] * 1001, ["a/b"]])
async def test_keep_alive_refuses_too_many_and_invalid_ids(stub: Any, ids: list[str]) -> None:
    error = await error_of(stub.KeepAlive(iter([pb.KeepAliveRequest(instance_ids=ids)])))
    assert isinstance(error, InvalidArgument)
    assert error.field_violations[0].field.startswith("instance_ids")


async def test_registering_again_within_the_ttl_keeps_an_instance(stub: Any, eventually: Eventually) -> None:
    message = Message(instance_id="i", role="r", address="h:1")
    message.ttl.FromSeconds(1)
    revisions = set()
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def outlived() -> bool:
        response = await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message))
        revisions.add(response.registration.revision)
        return loop.time() > began + 1.5 * message.ttl.seconds

    await eventually(outlived)
    assert len(revisions) == 1, "a renewal writes nothing"


async def test_deregistering_an_unknown_instance_succeeds(stub: Any) -> None:
    await stub.DeregisterInstance(pb.DeregisterInstanceRequest(instance_id="unknown"))
    with pytest.raises(InvalidArgument):
        await stub.DeregisterInstance(pb.DeregisterInstanceRequest(instance_id=""))


async def test_output_only_fields_of_a_request_are_ignored(stub: Any) -> None:
    message = Message(
        instance_id="i", role="r", address="h:1", tenant="t", identity="me", revision=2**62, via_orchestrator="o"
    )
    stored = (await stub.RegisterInstance(pb.RegisterInstanceRequest(registration=message))).registration
    assert (stored.tenant, stored.identity, stored.via_orchestrator) == ("default", "anonymous", "")
    assert stored.revision != 2**62


async def test_two_registries_never_accept_both_halves_of_a_cycle(etcd: EtcdProcess, prefix: str, make: Make) -> None:
    """No lock within a process prevents this, only etcd's transaction."""
    shared = settings(etcd=etcd.address, prefix=prefix)
    async with (
        registry_app(shared) as here,
        registry_app(shared) as there,
        RegistryClient(here) as client,
        RegistryClient(there) as other,
    ):

        async def always_acyclic() -> None:
            async with aclosing(other.watch(["edges"])) as changes:
                async for change in changes:
                    if change.graph is not None:
                        edges = [(edge.upstream, edge.downstream) for edge in change.graph.edges]
                        assert nx.is_directed_acyclic_graph(nx.DiGraph(edges))

        watching = asyncio.create_task(always_acyclic())
        for number in range(40):
            a, b, c, d = (f"{name}{number}" for name in "abcd")
            results = await asyncio.gather(
                client.pin_edges([(a, b)]), other.pin_edges([(b, a)]), return_exceptions=True
            )
            assert sum(isinstance(result, GraphCycle) for result in results) == 1, results
            first, second = await asyncio.gather(client.register(make(c, d)), other.register(make(d, c)))
            assert len(first.refused) + len(second.refused) == 1
        assert not watching.done()
        watching.cancel()
        await asyncio.wait([watching])


async def test_values_in_etcd_are_readable_json(etcd: EtcdProcess, prefix: str, make: Make) -> None:
    from archon_services.registry.store.etcd_client import EtcdClient

    async with registry_app(settings(etcd=etcd.address, prefix=prefix)) as address, RegistryClient(address) as client:
        handle = await client.register(make("r", "u"))
        await client.pin_edges([("r", "s")])
        reader = EtcdClient([etcd.address])
        values = {kv.key.decode(): json.loads(kv.value) for kv in (await reader.range(prefix.encode() + b"/")).kvs}
        await reader.close()
    assert set(values) == {
        f"{prefix}/instances/{handle.instance_id}",
        f"{prefix}/edges/u/r/{handle.instance_id}",
        f"{prefix}/pins/r/s",
        f"{prefix}/graph",
    }
    assert values[f"{prefix}/instances/{handle.instance_id}"]["role"] == "r"


async def test_corrupt_value_in_etcd_is_ignored(
    etcd: EtcdProcess, prefix: str, make: Make, eventually: Eventually
) -> None:
    from aetcd import rpc

    from archon_services.registry.store.etcd_client import EtcdClient

    writer = EtcdClient([etcd.address])
    puts = [rpc.PutRequest(key=f"{prefix}/instances/{name}".encode(), value=b"{no json") for name in ("a", "b")]
    await writer.txn([], [rpc.RequestOp(request_put=puts[0])])
    async with (
        registry_app(settings(etcd=etcd.address, prefix=prefix)) as address,
        RegistryClient(address) as client,
        aclosing(client.watch()) as changes,
    ):
        assert (await anext(changes)).instances == ()
        await writer.txn([], [rpc.RequestOp(request_put=puts[1])])
        handle = await client.register(make("r"))
        assert [instance.instance_id for instance in (await anext(changes)).instances] == [handle.instance_id]
        assert [instance.instance_id for instance in await client.list_instances()] == [handle.instance_id]
    await writer.close()


async def test_unreachable_etcd_member_is_skipped(etcd: EtcdProcess, prefix: str, make: Make) -> None:
    shared = settings(etcd=f"127.0.0.1:1,{etcd.address}", prefix=prefix)
    async with registry_app(shared) as address, RegistryClient(address) as client:
        handle = await client.register(make("r", ttl=10.0))
        async with aclosing(client.watch()) as changes:
            assert [instance.instance_id for instance in (await anext(changes)).instances] == [handle.instance_id]


async def test_invalid_list_of_etcd_members_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidArgument):
        async with registry_app(settings(etcd="nonsense", prefix=prefix)):
            pass


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=subprocess.DEVNULL)


async def _address(ready: Path, eventually: Eventually) -> str:
    await eventually(lambda: asyncio.to_thread(ready.exists), 15.0)
    return await asyncio.to_thread(ready.read_text)


_MEMBER = """
import asyncio, sys
from archon.registry import Registration, RegistryClient
async def main():
    async with RegistryClient(sys.argv[1]) as client:
        await client.register(Registration(role="member", address="127.0.0.1:1", ttl=1.0))
        await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_killed_member_expires_and_the_registry_stops_cleanly(
    etcd: EtcdProcess, prefix: str, tmp_path: Path, eventually: Eventually
) -> None:
    ready = tmp_path / "ready"
    service = await _start(
        "-m", "archon_services.registry", "--etcd", etcd.address, "--prefix", prefix, "--ready-file", str(ready)
    )
    try:
        async with RegistryClient(await _address(ready, eventually)) as client:
            member = await _start("-c", _MEMBER, client.target)
            async with aclosing(client.watch(["instances"])) as changes:
                change = await anext(changes)
                while not change.instances:
                    async with asyncio.timeout(60):
                        change = await anext(changes)
                os.kill(member.pid, signal.SIGKILL)
                await member.wait()
                async with asyncio.timeout(60):
                    assert (await anext(changes)).removed == (change.instances[0].instance_id,)
            service.terminate()
            assert await asyncio.wait_for(service.wait(), 60) == 0
            with pytest.raises(Unavailable):
                await client.get_graph(timeout=1)
    finally:
        if service.returncode is None:
            service.kill()
            await service.wait()


async def test_stopping_the_registry_ends_its_watches(
    etcd: EtcdProcess, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.registry.app.STOP_GRACE", 600.0)
    async with asyncio.timeout(60):
        async with registry_app(settings(etcd=etcd.address, prefix=prefix)) as address:
            channel = connect(address)
            call = registry_service_pb2_grpc.RegistryServiceStub(channel).Watch(pb.WatchRequest())
            await anext(aiter(call))
    assert isinstance(await error_of(call), Unavailable)
    await channel.close()


async def test_health_is_serving_while_etcd_is_unavailable(prefix: str) -> None:
    async with registry_app(settings(etcd="127.0.0.1:1", prefix=prefix)) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            response = await stub.Check(
                health_pb2.HealthCheckRequest(service="archon.api.registry.v1.RegistryService"), timeout=5
            )
            assert response.status == health_pb2.HealthCheckResponse.SERVING
        async with RegistryClient(address) as client:
            with pytest.raises(Unavailable):
                await client.list_instances()
            handle = await client.register(Registration(role="r", address="h:1"), timeout=0.3)
            assert not handle.registered.is_set()
            assert isinstance(handle.error, Unavailable | None)
