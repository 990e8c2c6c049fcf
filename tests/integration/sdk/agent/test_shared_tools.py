"""Tools that an AgentServer lends, over gRPC."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from archon import context
from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.api.common.v1 import common_pb2
from archon.api.tool.v1 import tool_pb2, tool_service_pb2_grpc
from archon.api.tool.v1 import tool_service_pb2 as pb
from archon.channel import agent_options, connect
from archon.errors import (
    ArchonError,
    InvalidArgument,
    LeaseExpired,
    NotFound,
    RequestIdReused,
    ResourceExhausted,
    Unavailable,
)
from archon.interceptors import translated
from archon.registry import Tool
from archon.tools import SharedTool, SharedToolCall, SharedToolResult, SharedToolStatus
from archon.wire import duration, to_seconds
from tests.fixtures.waiting import until

SCHEMA = (
    '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'
)
SUCCESS, ERROR, TIMEOUT = tool_pb2.TOOL_STATUS_SUCCESS, tool_pb2.TOOL_STATUS_ERROR, tool_pb2.TOOL_STATUS_TIMEOUT


class Lender:
    """An agent that shares tools, and its ToolService."""

    def __init__(self, agent: AgentServer) -> None:
        self.agent = agent
        self.channel = connect(agent.address, agent_options())
        self.stub: Any = tool_service_pb2_grpc.ToolServiceStub(self.channel)

    async def lease(self, name: str, seconds: float | None = None, task: str = "", run: str = "r") -> str:
        request = pb.LeaseToolRequest(tool_name=name, instance_id="tester")
        if seconds is not None:
            request.duration.CopyFrom(duration(seconds))
        if task:
            request.task.CopyFrom(common_pb2.TaskRef(task_id=task, run_id=run, attempt=1))
        lease = (await self.stub.LeaseTool(request, timeout=5)).lease
        assert lease.tool_name == name
        return str(lease.lease_id)

    async def execute(
        self, lease_id: str, arguments: str = '{"n": 1}', *, timeout: float | None = None, key: str = ""
    ) -> tuple[list[str], tool_pb2.ToolResult]:
        request = pb.ExecuteToolRequest(lease_id=lease_id, arguments_json=arguments, idempotency_key=key)
        if timeout is not None:
            request.timeout.CopyFrom(duration(timeout))
        progress: list[Any] = []
        results: list[Any] = []
        async for event in translated(self.stub.ExecuteTool(request, timeout=10)):
            assert not results, "the result is the last message"
            (results if event.HasField("result") else progress).append(event)
        assert len(results) == 1
        return [event.progress for event in progress], results[0].result


class Tools:
    """The executions of the shared tools of a lender."""

    def __init__(self) -> None:
        self.calls = 0
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.open = asyncio.Event()
        self.seen: list[SharedToolCall] = []

    async def double(self, arguments: Mapping[str, Any], call: SharedToolCall) -> Any:
        self.calls += 1
        self.seen.append(call)
        call.report("doubling")
        return {"doubled": arguments["n"] * 2}

    async def wait(self, arguments: Mapping[str, Any], call: SharedToolCall) -> Any:
        self.calls += 1
        self.began.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "waited"

    async def fail(self, arguments: Mapping[str, Any], call: SharedToolCall) -> Any:
        self.calls += 1
        match arguments.get("how"):
            case "typed":
                raise ResourceExhausted("no more paper", retry_delay=3.0)
            case "text":
                return SharedToolResult(status=SharedToolStatus.ERROR, error_message="it is raining")
            case "large":
                return "x" * 100_000_000
            case "object":
                return object()
            case "nan":
                return float("nan")
            case "cancel":
                raise asyncio.CancelledError
            case "exit":
                raise SystemExit(3)
        raise RuntimeError("secret path /etc/shadow")

    async def chatter(self, arguments: Mapping[str, Any], call: SharedToolCall) -> Any:
        while True:
            call.report("more " * 1_000)
            await asyncio.sleep(0)


async def answer(task: TaskContext) -> str:
    return "done"


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
async def lender(tools: Tools) -> AsyncIterator[Lender]:
    """A lender of `double`, `wait`, `again` (as `wait`, idempotent), `fail` and `chatter`."""
    agent = AgentServer(
        "lender",
        handler=answer,
        tools=[Tool("own"), Tool("double", "not shared yet")],
        shared_tools=[
            SharedTool(Tool("double", "Doubles a number.", SCHEMA), tools.double),
            SharedTool(Tool("wait", input_schema_json=SCHEMA), tools.wait, max_calls_per_minute=0, max_concurrent=3),
            SharedTool(Tool("again", input_schema_json=SCHEMA, idempotent=True), tools.wait),
            SharedTool(Tool("fail"), tools.fail),
            SharedTool(Tool("chatter"), tools.chatter),
            SharedTool(
                Tool("rare", input_schema_json=SCHEMA), tools.double, max_calls_per_minute=2, total_per_minute=3
            ),
        ],
        settings=AgentSettings(),
    )
    await agent.start()
    lender = Lender(agent)
    yield lender
    await lender.channel.close()
    await agent.stop(0.0)


async def test_a_shared_tool_is_listed_leased_and_executed(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("double", task="t1")
    progress, result = await lender.execute(lease_id, '{"n": 21}')
    assert (progress, result.status, result.content_json) == (["doubling"], SUCCESS, '{"doubled": 42}')
    (call,) = tools.seen
    assert call.task is not None and (call.task.task_id, call.instance_id) == ("t1", "tester")
    assert 0 < call.remaining <= 30.0
    listed = await lender.stub.ListTools(pb.ListToolsRequest(), timeout=5)
    double = next(tool for tool in listed.tools if tool.name == "double")
    assert double.HasField("share") and (double.share.calls, double.share.success_rate) == (1, 1.0)
    assert double.share.max_calls_per_minute == 60


async def test_the_registration_has_each_tool_once(lender: Lender) -> None:
    tools = {tool.name: tool for tool in lender.agent.registration.tools}
    assert len(tools) == len(lender.agent.registration.tools)
    assert tools["own"].share is None and tools["double"].share is not None
    assert tools["double"].description == "Doubles a number."


async def test_an_execution_belongs_to_the_trace_and_task_of_its_caller(lender: Lender) -> None:
    seen: list[tuple[str, str]] = []

    async def look(arguments: Mapping[str, Any], call: SharedToolCall) -> None:
        seen.append((context.trace()[0], context.current().task_id))

    lender.agent.shared_tools.share(SharedTool(Tool("look"), look))
    trace = common_pb2.TraceContext(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    lease_id = await lender.lease("look", task="t1")
    request = pb.ExecuteToolRequest(lease_id=lease_id, trace=trace)
    async for _ in translated(lender.stub.ExecuteTool(request, timeout=10)):
        pass
    ((traceparent, task_id),) = seen
    assert "0af7651916cd43dd8448eb211c80319c" in traceparent and task_id == "t1"


async def test_tools_are_listed_in_pages(lender: Lender) -> None:
    names, token = [], ""
    while True:
        page = await lender.stub.ListTools(pb.ListToolsRequest(page_size=2, page_token=token), timeout=5)
        names += [tool.name for tool in page.tools]
        token = page.next_page_token
        if not token:
            break
    assert names == ["again", "chatter", "double", "fail", "rare", "wait"]
    for request in (pb.ListToolsRequest(page_size=1_001), pb.ListToolsRequest(page_token="\xff")):
        with pytest.raises(InvalidArgument):
            await lender.stub.ListTools(request, timeout=5)


@pytest.mark.parametrize(
    "arguments", ['{"n": "x"}', "{}", "[]", "nothing", '{"n": NaN}', "[" * 100_000, '{"n":1,"m":2}']
)
async def test_arguments_that_do_not_match_are_refused(lender: Lender, tools: Tools, arguments: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await lender.execute(await lender.lease("double"), arguments)
    assert caught.value.field_violations and not tools.calls


async def test_a_made_up_or_revoked_lease_executes_nothing(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("double")
    await lender.stub.RevokeLease(pb.RevokeLeaseRequest(lease_id=lease_id), timeout=5)
    await lender.stub.RevokeLease(pb.RevokeLeaseRequest(lease_id="made up"), timeout=5)  # no error
    for wrong in (lease_id, "made up", ""):
        with pytest.raises(LeaseExpired) as caught:
            await lender.execute(wrong)
        assert "begun" not in caught.value.metadata
    with pytest.raises(NotFound):
        await lender.lease("own")
    assert not tools.calls


async def test_a_lease_lasts_an_hour_at_most(lender: Lender) -> None:
    request = pb.LeaseToolRequest(tool_name="double", duration=duration(1e6))
    await lender.stub.LeaseTool(request, timeout=5)
    (lease,) = lender.agent.shared_tools.leases()
    assert 3590 < lease.seconds_left <= 3600
    for seconds in (0.0, -1.0):
        with pytest.raises(InvalidArgument):
            await lender.lease("double", seconds)


async def test_calls_above_the_rate_of_a_lease_are_refused(lender: Lender) -> None:
    first, second = await lender.lease("rare"), await lender.lease("rare")
    for _ in range(2):
        await lender.execute(first)
    with pytest.raises(ResourceExhausted) as caught:
        await lender.execute(first)
    assert 0 < (caught.value.retry_delay or 0) <= 60
    await lender.execute(second)
    with pytest.raises(ResourceExhausted):  # the rate of all leases together
        await lender.execute(second)


async def test_calls_in_progress_are_bounded(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("wait")
    calls = [asyncio.create_task(lender.execute(lease_id)) for _ in range(3)]
    await until(lambda: tools.calls == 3)
    with pytest.raises(ResourceExhausted) as caught:
        await lender.execute(await lender.lease("wait"))
    assert caught.value.retry_delay
    tools.open.set()
    assert [result.content_json for _, result in await asyncio.gather(*calls)] == ['"waited"'] * 3
    await lender.execute(lease_id)


async def test_a_repeated_call_with_a_key_has_the_same_result(lender: Lender, tools: Tools) -> None:
    first = await lender.execute(await lender.lease("double", task="t1"), key="k")
    second = await lender.execute(await lender.lease("double", task="t1"), '{"n": 1 }', key="k")
    assert first[1] == second[1] and tools.calls == 1
    with pytest.raises(RequestIdReused):
        await lender.execute(await lender.lease("double", task="t1"), '{"n": 2}', key="k")
    await lender.execute(await lender.lease("double", task="t2"), key="k")
    await lender.execute(await lender.lease("double", task="t1", run="r2"), key="k")
    await lender.execute(await lender.lease("double"), key="k")
    await lender.execute(await lender.lease("double"), key="k")  # without a task, keys belong to their lease
    assert tools.calls == 5


async def test_a_call_with_the_key_of_one_in_progress_waits(lender: Lender, tools: Tools) -> None:
    first = asyncio.create_task(lender.execute(await lender.lease("wait", task="t1"), key="k"))
    await tools.began.wait()
    second = asyncio.create_task(lender.execute(await lender.lease("wait", task="t1"), key="k"))
    late = asyncio.create_task(lender.execute(await lender.lease("wait", task="t1"), key="k", timeout=0.05))
    assert (await late)[1].status == TIMEOUT
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    tools.open.set()
    assert (await second)[1].content_json == '"waited"'
    assert tools.calls == 1 and not tools.cancelled.is_set()


async def test_a_caller_that_leaves_cancels_the_tool(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("wait", task="t1")
    call = asyncio.create_task(lender.execute(lease_id, key="k"))
    await tools.began.wait()
    call.cancel()
    async with asyncio.timeout(5):
        await tools.cancelled.wait()
    tools.open.set()
    _, result = await lender.execute(lease_id, key="k")  # it may have acted: it is not executed again
    assert result.status == ERROR and "may have acted" in result.error_message
    assert tools.calls == 1


async def test_an_idempotent_call_that_was_cut_off_is_executed_again(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("again", task="t1")
    call = asyncio.create_task(lender.execute(lease_id, key="k"))
    await tools.began.wait()
    call.cancel()
    await tools.cancelled.wait()
    tools.open.set()
    assert (await lender.execute(lease_id, key="k"))[1].content_json == '"waited"'


async def test_a_call_above_its_time_is_a_timeout(lender: Lender, tools: Tools) -> None:
    _, result = await lender.execute(await lender.lease("wait"), timeout=0.05)
    assert result.status == TIMEOUT and "0.05 s" in result.error_message
    assert to_seconds(result.execution_time) >= 0.05
    await tools.cancelled.wait()
    for wrong in (0.0, -1.0):
        with pytest.raises(InvalidArgument):
            await lender.execute(await lender.lease("wait"), timeout=wrong)


async def test_a_revoked_tool_ends_its_calls_at_once(lender: Lender, tools: Tools) -> None:
    call = asyncio.create_task(lender.execute(await lender.lease("wait")))
    await tools.began.wait()
    assert lender.agent.shared_tools.revoke("wait") == 1
    with pytest.raises(LeaseExpired) as caught:
        await call
    assert caught.value.metadata["begun"] == "true"
    await tools.cancelled.wait()
    with pytest.raises(NotFound):
        await lender.lease("wait")


async def test_a_revoked_tool_ends_calls_whose_lease_has_expired(lender: Lender, tools: Tools) -> None:
    call = asyncio.create_task(lender.execute(await lender.lease("wait", 0.1)))
    await tools.began.wait()
    await until(lambda: not lender.agent.shared_tools.leases())
    assert lender.agent.shared_tools.running == 1, "a call that has begun may outlive its lease"
    lender.agent.shared_tools.revoke("wait")
    with pytest.raises(LeaseExpired):
        await call


async def test_a_revoked_lease_leaves_others_alone(lender: Lender, tools: Tools) -> None:
    first, second = await lender.lease("wait"), await lender.lease("wait")
    calls = [asyncio.create_task(lender.execute(each)) for each in (first, second)]
    await until(lambda: tools.calls == 2)
    assert lender.agent.shared_tools.revoke_lease(first)
    with pytest.raises(LeaseExpired):
        await calls[0]
    tools.open.set()
    assert (await calls[1])[1].status == SUCCESS
    assert [lease.lease_id for lease in lender.agent.shared_tools.leases()] == [second]


@pytest.mark.parametrize(
    ("how", "message", "reason"),
    [
        ("typed", "no more paper", "RESOURCE_EXHAUSTED"),
        ("text", "it is raining", ""),
        ("large", "more than", "INVALID_ARGUMENT"),
        ("object", "not a JSON value", "INVALID_ARGUMENT"),
        ("nan", "not a JSON value", "INVALID_ARGUMENT"),
        ("cancel", "cancelled its own call", ""),
        ("exit", "incident", "INTERNAL"),
        ("raise", "incident", "INTERNAL"),
    ],
)
async def test_a_failure_of_a_tool_is_a_result(lender: Lender, how: str, message: str, reason: str) -> None:
    _, result = await lender.execute(await lender.lease("fail"), f'{{"how": "{how}"}}')
    assert result.status == ERROR and message in result.error_message
    assert result.metadata.get("reason", "") == reason
    assert "secret" not in result.error_message and "Traceback" not in str(result)


async def test_progress_without_end_is_bounded_and_ends(lender: Lender) -> None:
    progress, result = await lender.execute(await lender.lease("chatter"), "{}", timeout=0.3)
    assert result.status == TIMEOUT and max(map(len, progress)) <= 1_000


async def test_a_stop_ends_calls_typed(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("wait")
    call = asyncio.create_task(lender.execute(lease_id))
    await tools.began.wait()
    stopping = asyncio.create_task(lender.agent.stop(0.2))
    with pytest.raises(Unavailable) as caught:
        await call
    assert caught.value.metadata["begun"] == "true"
    await stopping


async def test_a_drain_lets_calls_end_and_begins_none(lender: Lender, tools: Tools) -> None:
    lease_id = await lender.lease("wait")
    call = asyncio.create_task(lender.execute(lease_id))
    await tools.began.wait()
    stopping = asyncio.create_task(lender.agent.stop(10.0))
    with pytest.raises(Unavailable):
        while True:
            await lender.lease("double")
    with pytest.raises(Unavailable) as caught:
        await lender.execute(lease_id)
    assert caught.value.metadata["begun"] == "false"
    tools.open.set()
    assert (await call)[1].content_json == '"waited"'
    await stopping


async def test_the_log_has_no_contents_and_no_whole_lease(lender: Lender, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "archon.shared_tools"):
        lease_id = await lender.lease("double", task="t1")
        await lender.execute(lease_id, '{"n": 777777}')
        with pytest.raises(InvalidArgument):
            await lender.execute(lease_id, '{"m": 777777}')
        lender.agent.shared_tools.revoke_lease(lease_id)
    events = [(record.event, getattr(record, "outcome", "")) for record in caplog.records]  # type: ignore[attr-defined]
    assert events == [("lease", ""), ("execute", "success"), ("execute", "refused"), ("revoke", "")]
    assert {record.task_id for record in caplog.records} == {"t1"}  # type: ignore[attr-defined]
    assert "777777" not in caplog.text and lease_id not in caplog.text


async def test_arguments_of_10_mb_are_refused(lender: Lender, tools: Tools) -> None:
    with pytest.raises(InvalidArgument):
        await lender.execute(await lender.lease("fail"), '{"x": "' + "x" * 10_000_000 + '"}')
    with pytest.raises(ArchonError):
        await lender.execute(await lender.lease("fail"), '{"x": "' + "x" * 20_000_000 + '"}')
    assert not tools.calls


def test_a_tool_that_cannot_be_shared_is_refused(tools: Tools) -> None:
    for tool in (Tool(""), Tool("t", input_schema_json="[]"), Tool("t", input_schema_json='{"type": "nothing"}')):
        with pytest.raises(InvalidArgument):
            SharedTool(tool, tools.double)
    for limits in ({"timeout": 0}, {"timeout": 7200}, {"max_concurrent": 0}, {"max_calls_per_minute": -1}):
        with pytest.raises(InvalidArgument):
            SharedTool(Tool("t"), tools.double, **limits)
