"""The caller of shared tools: finds, leases, executes, renews, and moves without acting twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.api.tool.v1 import tool_service_pb2 as pb
from archon.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    LeaseExpired,
    MessageTooLarge,
    NotFound,
    RequestIdReused,
    ResourceExhausted,
    Unavailable,
    UnknownFailure,
)
from archon.registry import Registration, Tool, ToolShare
from archon.tools import SharedToolStatus, ToolClient, find_tools
from archon.tools.caller.find import shared_by
from archon.types import TaskRef
from tests.fixtures.lending_agent import bare_owner, lent, result
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually, until

TASK = TaskRef("t-1", "r-1")


@pytest.fixture
async def client(own_mesh: Mesh) -> AsyncIterator[ToolClient]:
    async with ToolClient(own_mesh.registry.address, instance_id="caller-1") as client:
        yield client


def registered(instance: str, *tools: Tool, role: str = "r") -> Registration:
    return Registration(role=role, instance_id=instance, address="127.0.0.1:1", tools=tools)


def test_the_best_tools_are_found_first() -> None:
    def shared(calls: int, rate: float, latency: float) -> Tool:
        return Tool("t", share=ToolShare(60, calls, rate, latency))

    found = shared_by(
        [
            registered("fails", shared(100, 0.2, 0.001)),
            registered("slow", shared(100, 1.0, 5.0)),
            registered("fast", shared(100, 0.99, 0.1)),
            registered("lucky", shared(1, 1.0, 0.01)),
            registered("new", shared(0, 0.0, 0.0)),
            registered("not shared", Tool("t")),
        ]
    )
    assert [each.instance_id for each in found] == ["fast", "slow", "new", "lucky", "fails"]


async def test_tools_are_found_by_name_capability_and_words(own_mesh: Mesh) -> None:
    registry = own_mesh.registry.address
    async with lent(registry) as lender, lent(registry, "other", name="triple"):
        assert [each.name for each in await find_tools(registry, name="double")] == ["double"]
        assert len(await find_tools(registry, capability="numbers.double")) == 2
        assert [each.role for each in await find_tools(registry, words="DOUBLES other")] == ["other"]
        assert [each.role for each in await find_tools(registry, role="lender")] == ["lender"]
        assert not await find_tools(registry, capability="numbers.halve")
        (found,) = await find_tools(registry, name="double")
        assert (found.instance_id, found.address) == (lender.agent.instance_id, lender.agent.address)
        assert found.share.max_calls_per_minute == 60


async def test_a_tool_is_leased_executed_and_released(own_mesh: Mesh, client: ToolClient) -> None:
    progress: list[str] = []
    async with lent(own_mesh.registry.address) as lender:
        async with client.lease("double", task=TASK) as tool:
            answer = await tool.execute({"n": 4}, on_progress=progress.append)
            assert (answer.content, answer.ok, progress) == (8, True, ["doubling"])
            refused = await tool.execute({"n": -1})
            assert (refused.status, refused.error_message) == (SharedToolStatus.ERROR, "no number below 0")
            assert refused.metadata["reason"] == "INVALID_ARGUMENT"
            (lease,) = lender.agent.shared_tools.leases()
            assert (lease.task, lease.instance_id) == (TASK, "caller-1")
            with pytest.raises(InvalidArgument) as caught:
                await tool.execute({"n": "four"})
            assert caught.value.field_violations[0].field == "n"
        assert not lender.agent.shared_tools.leases()
        with pytest.raises(FailedPrecondition):
            await tool.execute({"n": 4})


async def test_an_expired_lease_is_renewed(own_mesh: Mesh, client: ToolClient) -> None:
    async with lent(own_mesh.registry.address) as lender, client.lease("double", duration=20) as tool:
        await tool.execute({"n": 1})
        await own_mesh.advance(21)
        assert (await tool.execute({"n": 2})).content == 4
        (lease,) = lender.agent.shared_tools.leases()
        lender.agent.shared_tools.revoke_lease(lease.lease_id)
        assert (await tool.execute({"n": 3})).content == 6


async def test_a_call_that_was_revoked_is_not_repeated(own_mesh: Mesh, client: ToolClient) -> None:
    async with lent(own_mesh.registry.address) as lender, client.lease("double") as tool:
        lender.open.clear()
        call = asyncio.create_task(tool.execute({"n": 1}))
        await lender.began.wait()
        (lease,) = lender.agent.shared_tools.leases()
        lender.agent.shared_tools.revoke_lease(lease.lease_id)
        with pytest.raises(LeaseExpired):
            await call
        assert lender.ledger == [1]


async def test_a_tool_that_nobody_shares_is_not_found(own_mesh: Mesh, client: ToolClient) -> None:
    async with lent(own_mesh.registry.address), client.lease("tripel") as tool:
        with pytest.raises(NotFound):
            await tool.execute({})


async def test_a_tool_that_appears_is_found_at_once(own_mesh: Mesh, client: ToolClient) -> None:
    async with client.lease("double") as tool:
        with pytest.raises(NotFound):
            await tool.execute({"n": 1})
        async with lent(own_mesh.registry.address):
            assert (await tool.execute({"n": 1})).content == 2


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_call_moves_only_if_it_cannot_act_twice(own_mesh: Mesh, client: ToolClient, idempotent: bool) -> None:
    async with AsyncExitStack() as stack:
        lenders = [
            await stack.enter_async_context(lent(own_mesh.registry.address, idempotent=idempotent)) for _ in range(2)
        ]
        for lender in lenders:
            lender.open.clear()
        tool = await stack.enter_async_context(client.lease("double", task=TASK))
        call = asyncio.create_task(tool.execute({"n": 1}, idempotency_key="k"))
        await until(lambda: any(lender.ledger for lender in lenders))
        first, second = sorted(lenders, key=lambda lender: not lender.ledger)
        second.open.set()
        await first.agent.stop(0.0)
        if idempotent:
            assert (await call).content == 2
        else:
            with pytest.raises(Unavailable):
                await call
        assert (len(first.ledger), len(second.ledger)) == (1, int(idempotent))
        assert (await tool.execute({"n": 5})).content == 10  # a new call goes to the other one


async def test_an_instance_that_is_gone_before_the_call_is_replaced(own_mesh: Mesh, client: ToolClient) -> None:
    async with AsyncExitStack() as stack:
        lenders = [await stack.enter_async_context(lent(own_mesh.registry.address)) for _ in range(2)]
        tool = await stack.enter_async_context(client.lease("double"))
        await tool.execute({"n": 1})
        used, other = sorted(lenders, key=lambda lender: not lender.ledger)
        await used.agent.stop(0.0)
        assert (await tool.execute({"n": 2})).content == 4
        assert other.ledger == [2]


async def test_two_attempts_of_a_task_act_once(own_mesh: Mesh, client: ToolClient) -> None:
    async with AsyncExitStack() as stack:
        lenders = [await stack.enter_async_context(lent(own_mesh.registry.address)) for _ in range(4)]
        for attempt in range(1, 6):
            async with client.lease("double", task=TaskRef("t-9", "r-9", attempt)) as tool:
                assert (await tool.execute({"n": 3}, idempotency_key="k")).content == 6
        assert sum(len(lender.ledger) for lender in lenders) == 1
        async with client.lease("double", task=TaskRef("t-9", "r-9", 6)) as tool:
            with pytest.raises(RequestIdReused):
                await tool.execute({"n": 4}, idempotency_key="k")


async def test_two_owners_of_one_name_are_not_mixed(own_mesh: Mesh, client: ToolClient) -> None:
    registry = own_mesh.registry.address
    async with lent(registry, "alpha") as alpha, lent(registry, "beta") as beta, client.lease("double") as tool:
        await tool.execute({"n": 1})
        used, other = sorted((alpha, beta), key=lambda lender: not lender.ledger)
        await used.agent.stop(0.0)
        with pytest.raises(Unavailable):
            await tool.execute({"n": 1})
        assert not other.ledger
        async with client.lease("double", role=other.agent.role) as named:
            assert (await named.execute({"n": 2})).content == 4


async def test_calls_above_the_rate_say_when_to_try_again(own_mesh: Mesh, client: ToolClient) -> None:
    async with lent(own_mesh.registry.address, max_calls_per_minute=1), client.lease("double") as tool:
        await tool.execute({"n": 1})
        with pytest.raises(ResourceExhausted) as caught:
            await tool.execute({"n": 1})
        assert caught.value.retry_delay
        await own_mesh.advance(61)
        await tool.execute({"n": 1})


async def test_a_cancelled_call_is_cancelled_at_its_owner(own_mesh: Mesh, client: ToolClient) -> None:
    async with lent(own_mesh.registry.address) as lender, client.lease("double") as tool:
        lender.open.clear()
        call = asyncio.create_task(tool.execute({"n": 1}))
        await lender.began.wait()
        assert not lender.cancelled.is_set()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(10):
            await lender.cancelled.wait()
        await until(lambda: not lender.agent.shared_tools.running)
        assert lender.ledger == [1], "the cancelled call is not sent again"


@pytest.mark.search
async def test_the_figures_of_a_tool_are_advertised(own_mesh: Mesh, client: ToolClient) -> None:
    async with lent(own_mesh.registry.address) as lender, client.lease("double") as tool:
        before = lender.agent.registration
        for number in (1, 2, -3, 4, 5, 6, 7, 8):
            await tool.execute({"n": number})
        await own_mesh.advance(70)

        async def advertised() -> bool:
            (found,) = await client.find(name="double", fresh=True)
            return (found.share.calls, found.share.success_rate) == (8, 0.875)

        await eventually(advertised)
        assert lender.agent.registration != before
        revision = (await own_mesh.directory.resolve("lender"))[0].revision
        await tool.execute({"n": 4})  # no notable change
        await own_mesh.advance(140)
        assert (await own_mesh.directory.resolve("lender"))[0].revision == revision
        lender.agent.shared_tools.revoke("double")

        async def withdrawn() -> bool:
            return not await client.find(name="double", fresh=True)

        await eventually(withdrawn)


async def test_both_ends_log_a_call(own_mesh: Mesh, client: ToolClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "archon.shared_tools"):
        async with lent(own_mesh.registry.address), client.lease("double", task=TASK) as tool:
            await tool.execute({"n": 987_654})
    events = [record.event for record in caplog.records]  # type: ignore[attr-defined]
    assert events == ["lease", "execute", "call", "revoke"]
    assert {record.run_id for record in caplog.records} == {"r-1"}  # type: ignore[attr-defined]
    assert "987654" not in caplog.text


# Owners that lie


async def never(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    await asyncio.Event().wait()
    yield result("1")


async def twice(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    yield result('"first"')
    yield result('"second"')
    await asyncio.Event().wait()


async def endless(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    while True:
        yield pb.ExecuteToolResponse(progress="more " * 10_000)


async def nothing(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    empty: list[pb.ExecuteToolResponse] = []
    for response in empty:
        yield response


async def huge(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    yield result('"' + "x" * 15_000_000 + '"')


async def no_json(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    yield result("{" * 100_000)


async def no_status(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    yield pb.ExecuteToolResponse(result=pb.ExecuteToolResponse().result)


async def expired_for_ever(request: pb.ExecuteToolRequest, context: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
    for error in (LeaseExpired("again"),):
        raise error
    yield result("1")


@pytest.mark.parametrize(
    ("answers", "error", "calls"),
    [
        (never, DeadlineExceeded, 1),
        (endless, DeadlineExceeded, 1),
        (nothing, UnknownFailure, 1),
        (huge, MessageTooLarge, 1),
        (no_json, UnknownFailure, 1),
        (no_status, UnknownFailure, 1),
        (expired_for_ever, LeaseExpired, 4),
    ],
)
async def test_an_owner_that_lies_fails_the_call_typed(
    own_mesh: Mesh, client: ToolClient, answers: Any, error: type[Exception], calls: int
) -> None:
    told: list[str] = []
    async with bare_owner(own_mesh.registry.address, answers) as owner, client.lease("double") as tool:
        with pytest.raises(error):
            await tool.execute({"n": 1}, timeout=0.3, on_progress=told.append)
        assert len(owner.executed) == calls
    assert len(told) <= 1_000 and all(len(text) <= 1_000 for text in told)


async def test_an_owner_that_answers_twice_is_heard_once(own_mesh: Mesh, client: ToolClient) -> None:
    async with bare_owner(own_mesh.registry.address, twice), client.lease("double") as tool:
        assert (await tool.execute({"n": 1})).content == "first"


async def test_an_owner_without_the_service_is_passed_over(own_mesh: Mesh, client: ToolClient) -> None:
    shared = Tool("double", share=ToolShare(60, 1_000_000, 1.0, 0.0))
    address = own_mesh.memory.address  # serves other things
    liar = Registration(role="lender", address=address, tools=(shared,))
    await own_mesh.directory.register(liar)
    async with lent(own_mesh.registry.address) as lender, client.lease("double") as tool:
        assert (await tool.execute({"n": 1})).content == 2
        assert lender.ledger == [1]
