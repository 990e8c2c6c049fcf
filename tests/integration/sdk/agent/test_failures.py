"""An exception or an invalid answer of a handler fails its task with a typed error, without the exception's text."""

from __future__ import annotations

import asyncio

import pytest

from archon import errors, status
from archon.agent import Answer, TaskContext, TaskRejected
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from tests.fixtures.agents import Dial, Serve

S = common_pb2


def failure_of(result: agent_pb2.TaskResult) -> errors.ArchonError:
    return status.from_failure(result.failure)


@pytest.mark.parametrize(
    ("raised", "state", "kind"),
    [
        (errors.ResourceExhausted("busy", retry_delay=2.0), S.TASK_STATE_FAILED, errors.ResourceExhausted),
        (TaskRejected("no poems here"), S.TASK_STATE_REJECTED, errors.FailedPrecondition),
        (errors.InvalidArgument("lone \ud800"), S.TASK_STATE_FAILED, errors.InvalidArgument),
        (asyncio.CancelledError(), S.TASK_STATE_FAILED, errors.Internal),
        (StopIteration(), S.TASK_STATE_FAILED, errors.Internal),
    ],
)
async def test_an_exception_of_a_handler_fails_its_task(
    serve: Serve, dial: Dial, raised: BaseException, state: int, kind: type[errors.ArchonError]
) -> None:
    async def fail(task: TaskContext) -> str:
        raise raised

    peer = await dial(await serve(fail))
    ref = peer.ref("one")
    await peer.assign(ref)
    result = await peer.result(ref)
    assert (result.state, type(failure_of(result))) == (state, kind)


async def test_a_handler_that_raises_leaks_no_text(serve: Serve, dial: Dial) -> None:
    async def leak(task: TaskContext) -> str:
        raise RuntimeError("password=hunter2")

    peer = await dial(await serve(leak))
    ref = peer.ref("one")
    await peer.assign(ref)
    result = await peer.result(ref)
    error = failure_of(result)
    assert isinstance(error, errors.Internal)
    assert error.metadata["incident"] in error.message
    assert b"hunter2" not in b"".join(frame.SerializeToString() for frame in peer.frames)


@pytest.mark.parametrize("answer", [7, object(), Answer(metadata={"k": 1})])  # type: ignore[dict-item]
async def test_an_invalid_answer_fails_its_task(serve: Serve, dial: Dial, answer: object) -> None:
    async def odd(task: TaskContext) -> object:
        return answer

    peer = await dial(await serve(odd))
    ref = peer.ref("one")
    await peer.assign(ref)
    assert (await peer.result(ref)).state == S.TASK_STATE_FAILED


async def test_contract_rule_10_a_too_large_result_fails_its_task(serve: Serve, dial: Dial) -> None:
    async def write(task: TaskContext) -> str:
        return "x" * int(task.text)

    peer = await dial(await serve(write), max_message_bytes=200_000)
    large, fits = peer.ref("large"), peer.ref("fits")
    await peer.send(peer.assignment(large, "200000"), peer.assignment(fits, "199000"))
    result = await peer.result(large)
    assert result.state == S.TASK_STATE_FAILED
    assert isinstance(failure_of(result), errors.FrameTooLarge)
    assert len((await peer.result(fits)).output[0].text) == 199_000
