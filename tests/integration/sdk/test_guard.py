"""The server's guard and the client's interceptors on a real connection: callers receive typed errors only."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from archon import context, errors
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.channel import connect, service_options
from archon.converse_stream import ConverseStream
from archon.interceptors import translated
from archon.server import GrpcServer, Service
from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from tests.fixtures.metrics import measuring, points, reader, recorder
from tests.fixtures.waiting import until

__all__ = ["measuring", "reader", "recorder"]

NAME = "archon.api.registry.v1.RegistryService"


class Broken(registry_service_pb2_grpc.RegistryServiceServicer):
    """Fails in a different way in each method."""

    def __init__(self) -> None:
        self.remaining: float | None = None

    async def GetGraph(self, request: Any, context: Any) -> Any:
        raise errors.GraphCycle("it would close a cycle", metadata={"cycle": "a -> b -> a"})

    async def ListInstances(self, request: Any, context: Any) -> Any:
        raise asyncio.CancelledError

    async def ResolveInstances(self, request: Any, context: Any) -> Any:
        raise RuntimeError("the password is hunter2")

    async def PinEdges(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def UnpinEdges(self, request: Any, context: Any) -> Any:
        from archon import context as call

        self.remaining = call.current().remaining()
        return pb.UnpinEdgesResponse()

    async def RegisterInstance(self, request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    async def DeregisterInstance(self, request: Any, context: Any) -> Any:
        return pb.DeregisterInstanceResponse()

    def KeepAlive(self, request_iterator: Any, context: Any) -> Any:
        raise NotImplementedError

    async def Watch(self, request: Any, context: Any) -> Any:
        yield pb.WatchResponse(revision=1)
        raise errors.ResourceExhausted("too slow", retry_delay=1.5)


@pytest.fixture
async def served() -> AsyncIterator[tuple[Broken, registry_service_pb2_grpc.RegistryServiceStub, grpc.aio.Channel]]:
    broken = Broken()
    service = Service(NAME, registry_service_pb2_grpc.add_RegistryServiceServicer_to_server, broken)
    server = GrpcServer([service])
    channel = connect(await server.start())
    yield broken, registry_service_pb2_grpc.RegistryServiceStub(channel), channel
    await channel.close()
    await server.stop(0.1)


async def test_the_client_raises_the_class_that_the_server_raised(served: Any) -> None:
    with pytest.raises(errors.GraphCycle) as raised:
        await served[1].GetGraph(pb.GetGraphRequest())
    assert raised.value.metadata == {"cycle": "a -> b -> a"}


async def test_a_broken_stream_raises_the_class_after_its_messages(served: Any) -> None:
    revisions = []
    with pytest.raises(errors.ResourceExhausted) as raised:
        async for message in translated(served[1].Watch(pb.WatchRequest())):
            revisions.append(message.revision)
    assert revisions == [1]
    assert raised.value.retry_delay == 1.5


async def test_calls_are_measured_by_method_and_code(
    served: Any, measuring: Recorder, reader: InMemoryMetricReader
) -> None:
    _, stub, _ = served
    await stub.DeregisterInstance(pb.DeregisterInstanceRequest(), timeout=5)
    for _ in range(2):
        with pytest.raises(errors.GraphCycle):
            await stub.GetGraph(pb.GetGraphRequest(), timeout=5)
    with pytest.raises(errors.Unimplemented):
        await stub.PinEdges(pb.PinEdgesRequest(), timeout=5)

    def counts() -> dict[tuple[str, str], int]:
        return {
            (point.attributes["rpc.method"], point.attributes["rpc.response.status_code"]): point.count
            for point in points(reader, metrics.RPC_DURATION)
        }

    await until(lambda: sum(counts().values()) >= 4)  # a call that fails is measured after its answer has been sent
    assert counts() == {
        (f"{NAME}/DeregisterInstance", "OK"): 1,
        (f"{NAME}/GetGraph", "FAILED_PRECONDITION"): 2,
        (f"{NAME}/PinEdges", "UNIMPLEMENTED"): 1,
    }


async def test_a_cancellation_in_a_handler_does_not_hang_the_caller(served: Any) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(errors.Internal):
            await served[1].ListInstances(pb.ListInstancesRequest())


async def test_an_exception_of_a_handler_leaks_no_text(served: Any) -> None:
    with pytest.raises(errors.Internal) as raised:
        await served[1].ResolveInstances(pb.ResolveInstancesRequest())
    assert "hunter2" not in repr(raised.value.__dict__)


async def test_a_method_not_served_is_unimplemented_with_an_error_info(served: Any) -> None:
    with pytest.raises(errors.Unimplemented) as raised:
        await served[1].PinEdges(pb.PinEdgesRequest())
    assert raised.value.reason == "NOT_SERVED"
    with pytest.raises(errors.Unimplemented) as raised:
        async for _ in translated(served[1].KeepAlive(iter([pb.KeepAliveRequest()]))):
            pass
    assert raised.value.reason == "NOT_SERVED"


@pytest.mark.parametrize("method", ["/unknown.Service/Stream", f"/{NAME}/Unknown"])
async def test_a_method_nobody_has_is_answered_without_a_message(served: Any, method: str) -> None:
    call = served[2].stream_stream(method)(iter(()), timeout=5)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def messages() -> Iterator[pb.KeepAliveRequest]:
    """More messages than are written before the server ends the call."""
    return (pb.KeepAliveRequest() for _ in range(5))


async def test_the_client_raises_the_error_of_a_server_that_ends_the_call_during_a_write(served: Any) -> None:
    for _ in range(100):
        with pytest.raises(errors.Unimplemented) as raised:
            async for _ in translated(served[1].KeepAlive(messages())):
                pass
        assert raised.value.reason == "NOT_SERVED"


class Brief(Broken):
    """Ends a stream of requests at once, without an error."""

    async def KeepAlive(self, request_iterator: Any, context: Any) -> Any:
        yield pb.KeepAliveResponse()


async def test_a_call_that_the_server_ends_during_a_write_without_an_error_raises_none() -> None:
    server = GrpcServer([Service(NAME, registry_service_pb2_grpc.add_RegistryServiceServicer_to_server, Brief())])
    async with connect(await server.start()) as channel:
        stub = registry_service_pb2_grpc.RegistryServiceStub(channel)
        for _ in range(100):
            assert len([answer async for answer in translated(stub.KeepAlive(messages()))]) == 1
    await server.stop(0.1)


async def test_a_command_is_refused_with_the_error_of_a_server_that_ends_the_converse_stream(served: Any) -> None:
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(served[2])
    for _ in range(100):
        async with ConverseStream(stub) as stream:
            commands = [stream.watch(f"run-{number}") for number in range(5)]
            refused = await asyncio.gather(*commands, return_exceptions=True)
        assert {type(error) for error in refused} == {errors.Unimplemented}


async def test_an_unknown_method_is_unimplemented_with_an_error_info(served: Any) -> None:
    with pytest.raises(errors.Unimplemented) as raised:
        await served[2].unary_unary("/archon.api.unknown.v1.UnknownService/Nothing")(b"")
    assert raised.value.reason == "NOT_SERVED"


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe"], ids=["no message", "not UTF-8"])
async def test_invalid_bytes_are_a_typed_error_and_the_server_lives(served: Any, raw: bytes) -> None:
    call = served[2].unary_unary(f"/{NAME}/DeregisterInstance")
    with pytest.raises(errors.MalformedMessage):
        await call(raw)
    await served[1].DeregisterInstance(pb.DeregisterInstanceRequest(instance_id="x"))


async def test_the_deadline_that_is_left_travels_to_the_next_call(served: Any) -> None:
    broken, stub, _ = served
    with context.deadline(3.0):
        await stub.UnpinEdges(pb.UnpinEdgesRequest())
    assert broken.remaining is not None
    assert 0 < broken.remaining < 3.5


async def test_a_late_call_raises_deadline_exceeded(
    served: Any,
) -> None:
    with pytest.raises(errors.DeadlineExceeded):
        await served[1].RegisterInstance(pb.RegisterInstanceRequest(), timeout=0.2)


async def test_health_is_serving_and_a_second_server_is_refused(served: Any) -> None:
    stub: Any = health_pb2_grpc.HealthStub(served[2])
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=NAME))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    first = GrpcServer([])
    await first.start()
    with pytest.raises(errors.Unavailable, match="another process"):
        await GrpcServer([], port=first.port).start()
    await first.stop(0)


async def test_an_absent_server_is_unavailable_within_the_deadline() -> None:
    channel = connect("127.0.0.1:1", service_options())
    with pytest.raises((errors.Unavailable, errors.DeadlineExceeded)):
        await registry_service_pb2_grpc.RegistryServiceStub(channel).GetGraph(pb.GetGraphRequest(), timeout=1.0)
    await channel.close()


class Flood(Broken):
    """Sends responses until the caller leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.going = 0

    async def Watch(self, request: Any, context: Any) -> Any:
        self.going += 1
        try:
            while True:
                yield pb.WatchResponse(removed_instance_ids=["x" * 100_000])
        finally:
            self.going -= 1


async def test_a_caller_that_leaves_a_stream_ends_it_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gc.collect()  # what earlier tests have left is not what is counted here
    caplog.clear()
    flood = Flood()
    server = GrpcServer([Service(NAME, registry_service_pb2_grpc.add_RegistryServiceServicer_to_server, flood)])
    async with connect(await server.start()) as channel:
        stub = registry_service_pb2_grpc.RegistryServiceStub(channel)
        for _ in range(20):
            call: Any = stub.Watch(pb.WatchRequest())
            assert (await call.read()).removed_instance_ids
            call.cancel()
        await until(lambda: not flood.going)
    await server.stop(0.1)
    gc.collect()  # logs the exceptions that no task has read
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]
