"""A failure that advises another instance: the next attempt is at one, if there is one."""

from __future__ import annotations

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.client import answer_text
from archon.errors import Unavailable
from archon.failure_kinds import RetryAdvice
from tests.fixtures.mesh import Mesh


@pytest.mark.parametrize("names", ["one", "one two", "one two three"])
async def test_the_next_attempt_is_at_another_instance_if_there_is_one(own_mesh: Mesh, names: str) -> None:
    called = list[str]()
    settings = AgentSettings(registry=own_mesh.registry.address, max_tasks=4)
    for name in names.split():

        async def work(task: TaskContext, name: str = name) -> str:
            called.append(name)
            if len(called) < 3:
                raise Unavailable("the device is busy", retry=RetryAdvice.ELSEWHERE)
            return f"attempt {task.attempt}"

        await own_mesh.join(AgentServer("w", handler=work, settings=settings))
    handle = await own_mesh.client.submit("x", roles=["w"], wait=20)
    assert answer_text(handle.run) == "attempt 3"
    assert len(names.split()) == 1 or (called[0] != called[1] and called[1] != called[2]), called
