"""Coordinators: the role that receives a goal, and the roles and edges that a coordinator receives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentServer, TaskContext
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2
from archon.channel import connect
from archon.client import answer_text
from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, Unimplemented
from archon.registry import Capability
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe, failing_to

AWARENESS = """\
You are coordinating sub-agents with dependencies.

Dependency order (call upstream before downstream):
  requirements -> designer
  requirements -> implementer
  designer -> implementer

Recommended execution order: {order}

Guideline: do not call an agent before its prerequisites have been executed."""


@pytest.fixture
async def cast(own_mesh: Mesh) -> AsyncIterator[Troupe]:
    """Starts agents of a mesh without other agents and without a coordinator."""
    async with AsyncExitStack() as stack:
        yield Troupe(own_mesh, stack)


async def answer_role(task: TaskContext) -> str:
    return task.role


async def three(cast: Troupe) -> None:
    """Starts requirements -> designer, requirements -> implementer, designer -> implementer."""
    await cast("requirements", answer_role, description="asks")
    await cast("designer", answer_role, depends_on=["requirements"], description="draws")
    await cast("implementer", answer_role, depends_on=["requirements", "designer"])


def recording(tasks: dict[str, TaskContext], **target: Any) -> Any:
    """Returns a handler that stores its task by role, and delegates if a target is given."""

    async def handler(task: TaskContext) -> str:
        tasks[task.role] = task
        return (await task.delegate(task.text, **target)).text if target else task.role

    return handler


async def test_a_coordinator_receives_roles_that_do_not_depend_on_it(own_mesh: Mesh, cast: Troupe) -> None:
    tasks: dict[str, TaskContext] = {}
    await three(cast)
    await cast("helper", recording(tasks), coordinator=True, description="helps")
    await cast("boss", recording(tasks, role="helper"), coordinator=True)
    await cast("plain", recording(tasks, role="helper"))
    await own_mesh.client.submit("x", roles=["boss"], wait=10)
    boss, helper = tasks["boss"], tasks["helper"]
    assert [(target.role, target.description) for target in boss.delegation_targets] == [
        ("helper", "helps"),
        ("plain", ""),
        ("requirements", "asks"),
        ("designer", "draws"),
        ("implementer", ""),
    ]
    assert boss.awareness == AWARENESS.format(order="helper, plain, requirements, designer, implementer")
    assert [target.role for target in helper.delegation_targets] == ["plain", "requirements", "designer", "implementer"]
    assert helper.awareness == AWARENESS.format(order="plain, requirements, designer, implementer")
    assert (boss.delegation_chain, helper.delegation_chain) == ((), ("boss",))

    await own_mesh.client.submit("x", roles=["plain"], wait=10)
    assert (tasks["plain"].delegation_targets, tasks["plain"].awareness) == ([], "")
    assert [target.role for target in tasks["helper"].delegation_targets] == [
        "boss",
        "requirements",
        "designer",
        "implementer",
    ]
    assert tasks["helper"].delegation_chain == ("plain",)


async def test_a_coordinator_in_a_pipeline_receives_all_edges(own_mesh: Mesh, cast: Troupe) -> None:
    tasks: dict[str, TaskContext] = {}
    await three(cast)

    async def lead(task: TaskContext) -> str:
        tasks["lead"] = task
        await task.delegate("x", role="requirements")
        return (await task.delegate("y", role="heir")).text

    async def heir(task: TaskContext) -> str:
        return ", ".join(item.role for item in task.context)

    await cast("heir", heir, depends_on=["requirements"])
    await cast("lead", lead, coordinator=True)
    handle = await own_mesh.client.submit("x", roles=["lead"], strategy="pipeline", wait=10)
    assert handle.run.strategy == "pipeline"
    assert "  requirements -> designer\n" in tasks["lead"].awareness
    assert answer_text(handle.run) == "requirements"


async def test_a_goal_without_a_role_goes_to_the_coordinator(own_mesh: Mesh, cast: Troupe) -> None:
    await three(cast)
    with pytest.raises(FailedPrecondition, match="no role coordinates"):
        await own_mesh.client.submit("x", strategy="agent")
    boss = await cast("boss", answer_role, coordinator=True, capabilities=[Capability("lead")])
    run = (await own_mesh.client.submit("x", strategy="agent", wait=10)).run
    assert (run.strategy, answer_text(run)) == ("agent", "boss")
    run = (await own_mesh.client.submit("x", capabilities=["lead"], strategy="agent", wait=10)).run
    assert answer_text(run) == "boss"
    await cast("rival", answer_role, coordinator=True)
    with pytest.raises(FailedPrecondition, match="several coordinators: boss, rival"):
        await own_mesh.client.submit("x", strategy="agent")
    assert boss.registration.coordinator
    (registered,) = [instance for instance in await own_mesh.directory.list_instances() if instance.role == "boss"]
    assert registered.coordinator, "the registry's record has the flag too"


async def test_one_named_role_is_an_agent_run_several_are_a_pipeline(mesh: Mesh) -> None:
    for roles, strategy, expected in (
        (["requirements"], "", "agent"),
        (["requirements", "designer"], "", "pipeline"),
        ([], "", "pipeline"),
        (["requirements"], "pipeline", "pipeline"),
    ):
        run = (await mesh.client.submit("x", roles=roles, strategy=strategy, wait=10)).run
        assert (run.strategy, run.state) == (expected, TaskState.COMPLETED)


async def test_strategy_agent_takes_one_role(mesh: Mesh) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await mesh.client.submit("x", roles=["requirements", "designer"], strategy="agent")
    assert [violation.field for violation in refused.value.field_violations] == ["roles"]


async def test_a_task_of_a_simple_caller_cannot_delegate(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []
    agent: AgentServer = await troupe("chef", failing_to(errors, role="requirements"))
    channel = connect(agent.address)
    stub = agent_service_pb2_grpc.AgentServiceStub(channel)
    task = agent_pb2.AssignTask(input=[common_pb2.Part(text="x")])
    responses = [response async for response in stub.RunTask(agent_service_pb2.RunTaskRequest(task=task), timeout=5)]
    await channel.close()
    assert responses[-1].result.output[0].text == "no answer: NOT_SERVED"
    assert [type(error) for error in errors] == [Unimplemented]
    assert answer_text((await mesh.client.submit("x", roles=["chef"], wait=10)).run) == "requirements()"
