"""Reservations of a task's budget: each is released once, by the call that it was made for."""

from __future__ import annotations

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unimplemented
from archon.types import Usage
from tests.fixtures.fake_link import FakeLink


def task_with(tokens: int) -> TaskContext:
    """A task with a slice of so many tokens, whose link grants no more."""
    assigned = agent_pb2.AssignTask(budget=common_pb2.Budget(max_tokens=tokens))
    return TaskContext.from_proto(common_pb2.TaskRef(task_id="r.1", run_id="r", attempt=1), assigned, FakeLink([]))


def record(task: TaskContext, tokens: int = 0, *, retried: bool = False) -> None:
    usage = Usage(input_tokens=tokens)
    task.record_model_call("m", {}, {}, started=0.0, seconds=0.0, usage=usage, retried=retried)


async def test_a_retried_call_keeps_its_reservation() -> None:
    task = task_with(100)
    await task.reserve(tokens=60)
    await task.reserve(tokens=40)
    record(task, retried=True)
    with pytest.raises(Unimplemented):
        await task.reserve(tokens=1)
    record(task, tokens=10)
    await task.reserve(tokens=50)


async def test_a_call_that_was_not_made_gives_its_reservation_back() -> None:
    task = task_with(100)
    await task.reserve(tokens=100)
    task.settle()
    await task.reserve(tokens=100)
