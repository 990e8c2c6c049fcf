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


def run_task_request(text: str = "hello") -> agent_service_pb2.RunTaskRequest:
    """Returns a request with one text part."""
    return agent_service_pb2.RunTaskRequest(task=agent_pb2.AssignTask(input=[common_pb2.Part(text=text)]))


async def answers(agent: AgentServer, request: agent_service_pb2.RunTaskRequest, timeout: float = 5.0) -> list[Any]:
    """Calls RunTask and returns all responses."""
    async with grpc.aio.insecure_channel(agent.address) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        return [response async for response in stub.RunTask(request, timeout=timeout)]


async def refused(agent: AgentServer, request: agent_service_pb2.RunTaskRequest) -> errors.ArchonError:
    """Calls RunTask and returns the error that ends the call."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await answers(agent, request)
    return status.from_rpc_error(raised.value)


async def test_progress_precedes_one_result_and_nothing_is_parked(serve: Serve) -> None:
    async def echo(task: TaskContext) -> str:
        task.write("thinking ")
        return f"you said {task.text}"

    agent = await serve(echo)
    progress, result = await answers(agent, run_task_request())
    assert progress.progress.text == "thinking "
    assert result.result.state == common_pb2.TASK_STATE_COMPLETED
    assert result.result.output[0].text == "you said hello"
    assert len(agent.attempts) == 0


async def test_an_exception_of_a_handler_is_typed_in_the_result(serve: Serve) -> None:
    async def fail(task: TaskContext) -> str:
        raise errors.PermissionDenied("no")

    (result,) = await answers(await serve(fail), run_task_request())
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
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    agent = await serve(hold, max_tasks=1)
    first = asyncio.create_task(answers(agent, run_task_request(), 60.0))
    async with asyncio.timeout(5):
        await begun.wait()
    error = await refused(agent, run_task_request())
    assert (type(error), error.reason) == (errors.ResourceExhausted, "NO_CAPACITY")
    assert error.retry_delay
    first.cancel()
    async with asyncio.timeout(1):
        await stopped.wait()
        while agent.attempts.running:
            await agent.attempts.wait_changed()


async def test_the_deadline_of_a_call_is_the_deadline_of_its_task(serve: Serve) -> None:
    async def slow(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return "never"

    (result,) = await answers(await serve(slow), run_task_request(), timeout=0.6)
    assert isinstance(status.from_failure(result.result.failure), errors.DeadlineExceeded)
