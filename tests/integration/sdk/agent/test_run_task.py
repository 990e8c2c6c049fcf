"""RunTask: one task for a simple caller, over bare stubs."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
import pytest

from archon import errors, status
from archon.agent import AgentServer, TaskContext
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2
from tests.fixtures.agents import Serve


def asked(text: str = "hello") -> agent_service_pb2.RunTaskRequest:
    """A request with one text part."""
    return agent_service_pb2.RunTaskRequest(task=agent_pb2.AssignTask(input=[common_pb2.Part(text=text)]))


async def answers(agent: AgentServer, request: agent_service_pb2.RunTaskRequest, timeout: float = 5.0) -> list[Any]:
    """Everything that comes."""
    async with grpc.aio.insecure_channel(agent.address) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        return [response async for response in stub.RunTask(request, timeout=timeout)]


async def refused(agent: AgentServer, request: agent_service_pb2.RunTaskRequest) -> errors.ArchonError:
    """The error that it ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await answers(agent, request)
    return status.from_rpc_error(raised.value)


async def test_progress_precedes_one_result_and_nothing_is_parked(serve: Serve) -> None:
    async def echo(task: TaskContext) -> str:
        task.write("thinking ")
        return f"you said {task.text}"

    agent = await serve(echo)
    progress, result = await answers(agent, asked())
    assert progress.progress.text == "thinking "
    assert result.result.state == common_pb2.TASK_STATE_COMPLETED
    assert result.result.output[0].text == "you said hello"
    assert len(agent.attempts) == 0


async def test_what_a_handler_raises_is_in_the_result_typed(serve: Serve) -> None:
    async def fail(task: TaskContext) -> str:
        raise errors.PermissionDenied("no")

    (result,) = await answers(await serve(fail), asked())
    assert result.result.state == common_pb2.TASK_STATE_FAILED
    assert isinstance(status.from_failure(result.result.failure), errors.PermissionDenied)


async def test_a_task_without_input_is_refused_with_the_field(serve: Serve) -> None:
    agent = await serve(lambda task: "x")
    error = await refused(agent, agent_service_pb2.RunTaskRequest())
    assert isinstance(error, errors.InvalidArgument)
    assert error.field_violations[0].field == "task.input"


async def test_above_capacity_a_call_is_refused_until_a_slot_is_free(
    serve: Serve,
) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def hold(task: TaskContext) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "never"

    agent = await serve(hold, max_tasks=1)
    first = asyncio.create_task(answers(agent, asked(), 60.0))
    async with asyncio.timeout(5):
        await begun.wait()
    error = await refused(agent, asked())
    assert (type(error), error.reason) == (errors.ResourceExhausted, "NO_CAPACITY")
    assert error.retry_delay
    first.cancel()
    async with asyncio.timeout(1):
        await stopped.wait()
        while agent.attempts.running:
            await agent.attempts.wait_changed()


async def test_the_calls_deadline_is_the_tasks(serve: Serve) -> None:
    async def slow(task: TaskContext) -> str:
        await asyncio.sleep(60)
        return "never"

    (result,) = await answers(await serve(slow), asked(), timeout=0.6)
    assert isinstance(status.from_failure(result.result.failure), errors.DeadlineExceeded)
