"""Calls that an orchestrator relays, at the agent: who is let in, what is served, and how a call ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon import status
from archon.agent import relayed_calls
from archon.agent.relayed_calls import RelayedCalls
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc
from archon.api.agent.v1 import attach_service_pb2 as pb
from archon.context import current
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    Internal,
    MalformedMessage,
    MessageTooLarge,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from archon.principal import Kind
from archon.server import Service
from archon.wire import duration

SERVICE = "archon.api.agent.v1.AgentService"


class Servicer(agent_service_pb2_grpc.AgentServiceServicer):
    """Answers Describe with the caller; Deliver never; RunTask with two messages, then a fault."""

    async def Describe(self, request: Any, context: Any) -> agent_service_pb2.DescribeResponse:
        call = current()
        name = call.principal.name if call.principal is not None else "none"
        return agent_service_pb2.DescribeResponse(features=[name, call.tenant, call.identity, call.traceparent])

    async def Deliver(self, request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    async def RunTask(self, request: Any, context: Any) -> AsyncIterator[agent_service_pb2.RunTaskResponse]:
        yield agent_service_pb2.RunTaskResponse()
        yield agent_service_pb2.RunTaskResponse()
        raise ValueError("a fault")

    def Session(self, request_iterator: Any, context: Any) -> Any:
        raise AssertionError("no session is relayed as a call")


def calls() -> RelayedCalls:
    add = agent_service_pb2_grpc.add_AgentServiceServicer_to_server
    return RelayedCalls([Service(SERVICE, add, Servicer())])


def call(method: str, **fields: Any) -> pb.RelayedCall:
    return pb.RelayedCall(method=f"/{SERVICE}/{method}", **fields)


async def answers(served: RelayedCalls, relayed: pb.RelayedCall) -> list[pb.CallAnswer]:
    got: list[pb.CallAnswer] = []

    async def send(answer: pb.CallAnswer) -> None:
        got.append(answer)

    await asyncio.wait([served.begin(relayed, send)], timeout=5.0)
    return got


async def error_of(served: RelayedCalls, relayed: pb.RelayedCall) -> ArchonError:
    return status.from_failure((await answers(served, relayed))[-1].failure)


async def test_a_handler_sees_the_caller_that_the_orchestrator_has_verified() -> None:
    caller = pb.Caller(kind="agent", name="critic", tenant="acme", identity="ann", identity_tenant="acme")
    relayed = call("Describe", caller=caller)
    relayed.trace.traceparent = "00-1-2-01"
    response, end = await answers(calls(), relayed)
    described = agent_service_pb2.DescribeResponse.FromString(response.response)
    assert list(described.features) == ["critic", "acme", "ann", "00-1-2-01"]
    assert end.HasField("completed")
    response, _ = await answers(calls(), call("Describe"))
    described = agent_service_pb2.DescribeResponse.FromString(response.response)
    assert list(described.features)[:3] == ["none", "default", "anonymous"]


async def test_the_policy_of_the_agents_process_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = pb.Caller(kind="viewer", name="vic", tenant="default")
    assert isinstance(await error_of(calls(), call("Deliver", caller=viewer)), PermissionDenied)
    monkeypatch.setattr(relayed_calls, "own_policy", lambda: {f"/{SERVICE}/Describe": frozenset({Kind.ADMIN})})
    assert isinstance(await error_of(calls(), call("Describe", caller=viewer)), PermissionDenied)


@pytest.mark.parametrize(
    ("relayed", "expected"),
    [
        (call("Session"), Unimplemented),
        (pb.RelayedCall(method="/grpc.health.v1.Health/Check"), Unimplemented),
        (call("Describe", request=b"\xff"), MalformedMessage),
        (call("Describe", caller=pb.Caller(kind="king")), PermissionDenied),
        (call("Deliver", remaining=duration(0.01)), DeadlineExceeded),
    ],
)
async def test_a_call_that_cannot_be_served_ends_with_a_typed_error(
    relayed: pb.RelayedCall, expected: type[ArchonError]
) -> None:
    assert type(await error_of(calls(), relayed)) is expected


async def test_responses_come_before_the_error_of_a_handler_whose_text_does_not_leak() -> None:
    got = await answers(calls(), call("RunTask"))
    assert [answer.WhichOneof("event") for answer in got] == ["response", "response", "failure"]
    error = status.from_failure(got[-1].failure)
    assert isinstance(error, Internal)
    assert "a fault" not in str(error)


async def test_calls_and_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed_calls, "MAX_CALLS", 1)
    served = calls()

    async def send(answer: pb.CallAnswer) -> None:
        pass

    hanging = served.begin(call("Deliver"), send)
    error = await error_of(served, call("Describe"))
    assert isinstance(error, ResourceExhausted)
    assert error.retry_delay
    hanging.cancel()
    await asyncio.wait([hanging])
    assert served.running == 0
    monkeypatch.setattr(relayed_calls, "MAX_RELAYED_BYTES", 3)
    assert isinstance(await error_of(served, call("Describe")), MessageTooLarge)


async def test_an_agent_that_stops_ends_its_calls_and_takes_no_more() -> None:
    served = calls()
    got: list[pb.CallAnswer] = []

    async def send(answer: pb.CallAnswer) -> None:
        got.append(answer)

    served.begin(call("Deliver"), send)
    await asyncio.sleep(0)
    await served.stop()
    assert isinstance(status.from_failure(got[0].failure), Unavailable)
    assert isinstance(await error_of(served, call("Describe")), Unavailable)
