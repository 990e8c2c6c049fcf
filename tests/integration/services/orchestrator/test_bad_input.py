"""Invalid input gives a typed error with details, and does not affect the process or other runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.client import answer_text
from archon.errors import (
    EmptyGoal,
    InvalidArgument,
    MalformedMessage,
    MessageTooLarge,
    UnknownCapability,
    UnknownRole,
)
from archon.status import from_rpc_error
from tests.fixtures.mesh import Mesh

METHOD = "/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"


@pytest.fixture
async def bare(mesh: Mesh) -> AsyncIterator[grpc.aio.Channel]:
    """A channel without Archon's options and interceptors, as bare stubs use it."""
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(mesh.orchestrator.address, options=options) as channel:
        yield channel


@pytest.fixture(autouse=True)
async def _unharmed(mesh: Mesh) -> AsyncIterator[None]:
    """Checks after each test that the orchestrator has logged no error, and still serves a run."""
    yield
    run = (await mesh.client.submit("still there?", wait=10)).run
    assert answer_text(run) == "implementer(requirements(), designer(requirements()))"
    assert not mesh.errors


async def test_an_unknown_role_is_refused_with_the_known_roles(mesh: Mesh) -> None:
    with pytest.raises(UnknownRole, match=r"'absent'.*designer") as refused:
        await mesh.client.submit("x", roles=["absent"])
    assert refused.value.metadata == {"role": "absent"}


async def test_an_unknown_capability_is_not_found(mesh: Mesh) -> None:
    with pytest.raises(UnknownCapability) as refused:
        await mesh.client.submit("x", capabilities=["fly"])
    assert refused.value.metadata == {"capability": "fly"}


@pytest.mark.parametrize("goal", ["", " \n\t "])
async def test_an_empty_goal_is_refused_with_the_field(mesh: Mesh, goal: str) -> None:
    with pytest.raises(EmptyGoal) as refused:
        await mesh.client.submit(goal)
    assert refused.value.field_violations[0].field == "goal"


async def test_a_goal_without_parts_is_refused(mesh: Mesh) -> None:
    with pytest.raises(EmptyGoal):
        await mesh.client.submit([])


async def test_a_5_mb_goal_over_bare_stubs_is_a_typed_error(bare: grpc.aio.Channel) -> None:
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(bare)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.SubmitRun(pb.SubmitRunRequest(goal=[common_pb2.Part(text="x" * 5_000_000)]))
    error = from_rpc_error(refused.value)
    assert isinstance(error, MessageTooLarge)
    assert error.field_violations[0].field == "goal"


async def test_a_50_mb_goal_is_refused_by_the_client(mesh: Mesh) -> None:
    with pytest.raises(MessageTooLarge):
        await mesh.client.submit("x" * 50_000_000)


async def test_a_50_mb_goal_over_bare_stubs_is_resource_exhausted(bare: grpc.aio.Channel) -> None:
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(bare)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.SubmitRun(pb.SubmitRunRequest(goal=[common_pb2.Part(text="x" * 50_000_000)]))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_invalid_utf_8_in_a_submit_is_a_typed_error(bare: grpc.aio.Channel) -> None:
    part = b"\x0a\x02\xff\xfe"  # Part.text with two bytes that are not UTF-8
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        call: Any = bare.unary_unary(METHOD)
        await call(b"\x12" + bytes([len(part)]) + part)
    assert isinstance(from_rpc_error(refused.value), MalformedMessage)


async def test_text_that_cannot_be_utf_8_is_refused_by_the_client(mesh: Mesh) -> None:
    with pytest.raises(InvalidArgument, match="UTF-8"):
        await mesh.client.submit("\ud800")


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("timeout", {"timeout": {"seconds": -1}}),
        ("timeout", {"timeout": {"seconds": 1_000_000}}),
        ("wait", {"wait": {"seconds": 10_000}}),
        ("roles", {"roles": ["designer", "designer"]}),
        ("capabilities", {"roles": ["designer"], "capabilities": ["x"]}),
        ("session_id", {"session_id": "x" * 300}),
        ("request_id", {"request_id": "x" * 300}),
    ],
)
async def test_an_invalid_field_is_named(bare: grpc.aio.Channel, field: str, request_: dict[str, object]) -> None:
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(bare)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.SubmitRun(pb.SubmitRunRequest(goal=[common_pb2.Part(text="x")], **request_))  # type: ignore[arg-type]
    error = from_rpc_error(refused.value)
    assert isinstance(error, InvalidArgument)
    assert field in [violation.field for violation in error.field_violations]
