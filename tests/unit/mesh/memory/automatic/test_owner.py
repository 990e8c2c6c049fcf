"""Whose memory a run uses."""

from __future__ import annotations

from typing import Any, cast

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.agent import Agent, AgentState
from archon_mesh.llm import ScriptedModel
from archon_mesh.memory.automatic.owner import LOCAL_USER, USER_KEY, Owner, owner_of


async def owner_in_run(agent: Agent, context: dict[str, Any] | None = None) -> Owner | None:
    """Returns the owner of a run of the agent."""
    states: list[AgentState] = []
    agent.on("query_start").handle(effects=lambda hook: states.append(hook.state))
    await agent.run_async("Hello", context or {})
    return owner_of(states[-1])


def clerk(**fields: Any) -> Agent:
    return Agent("clerk", model=ScriptedModel(lambda request: "Hello."), **fields)


def task(user: str = "", conversation: str = "") -> dict[str, Any]:
    ref = common_pb2.TaskRef(run_id="r1", task_id="t1", attempt=1)
    assigned = agent_pb2.AssignTask(conversation_id=conversation, metadata={USER_KEY: user} if user else {})
    return {"task": TaskContext.from_proto(ref, assigned, cast(Any, None))}


@pytest.mark.parametrize(
    ("context", "agent_user", "expected"),
    [
        (task("ana", "s1/clerk"), "ben", ("ana", "s1", "t1")),
        (task("", "s1/clerk"), "ben", ("ben", "s1", "t1")),
        (task("", "team/s1/clerk"), "", ("session/team/s1", "team/s1", "t1")),
        (task("ana"), "", ("ana", "", "t1")),
    ],
)
async def test_a_task_belongs_to_the_first_user_that_is_known(
    context: dict[str, Any], agent_user: str, expected: tuple[str, str, str]
) -> None:
    owner = await owner_in_run(clerk(user_id=agent_user), context)
    assert owner == Owner(*expected, "clerk")


async def test_a_task_without_user_and_session_has_no_owner() -> None:
    assert await owner_in_run(clerk(), task()) is None


async def test_a_script_without_a_user_has_one_user() -> None:
    owner = await owner_in_run(clerk())
    assert owner is not None
    assert (owner.user, owner.role) == (LOCAL_USER, "clerk")
    assert owner.metadata("turn").keys() == {"user", "task", "role", "type"}


async def test_a_long_id_is_stored_as_its_hash() -> None:
    one = await owner_in_run(clerk(user_id="u" * 5_000))
    other = await owner_in_run(clerk(user_id="u" * 5_001))
    assert one is not None
    assert other is not None
    assert len(one.user) == len(other.user) == 64
    assert one.user != other.user
