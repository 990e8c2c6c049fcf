"""Tasks that hand parts of themselves to other roles: answers, refusals, failures, what is remembered (rule C8)."""

from __future__ import annotations

import asyncio

import pytest

from archon.agent import TaskContext, TaskRejected
from archon.api.common.v1 import common_pb2
from archon.client import answer_text
from archon.errors import (
    ArchonError,
    DelegationLoop,
    DelegationTooDeep,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    UnknownCapability,
    UnknownRole,
)
from archon.registry import Capability
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe, durable, failing_to, of

COMPLETED = common_pb2.TASK_STATE_COMPLETED


async def test_contract_rule_8_a_task_delegates_and_gets_the_answer_of_a_task_of_the_same_run(
    mesh: Mesh, troupe: Troupe
) -> None:
    async def cook(task: TaskContext) -> str:
        assert task.delegation_chain == ("chef",)
        return f"{task.text}, cooked"

    async def chef(task: TaskContext) -> str:
        assert task.delegation_chain == ()
        answer = await task.delegate("an egg", role="cook")
        assert not answer.memoized
        return f"served: {answer.text}"

    await troupe("cook", cook)
    await troupe("chef", chef)
    run = (await mesh.client.submit("dinner", roles=["chef"], wait=10)).run
    assert answer_text(run) == "served: an egg, cooked"
    assert [(task.role, task.parent_task_id, task.state) for task in run.tasks] == [
        ("chef", "", COMPLETED),
        ("cook", run.tasks[0].task_id, COMPLETED),
    ]
    assert [answer.role for answer in run.answers] == ["chef"], "what was delegated is no answer of the run"


async def test_delegations_of_one_task_run_at_the_same_time(mesh: Mesh, troupe: Troupe) -> None:
    both = asyncio.Barrier(2)

    async def cook(task: TaskContext) -> str:
        await both.wait()  # one alone would wait for ever
        return task.text

    async def chef(task: TaskContext) -> str:
        said = await asyncio.gather(task.delegate("egg", role="cook"), task.delegate("ham", role="cook"))
        return " and ".join(answer.text for answer in said)

    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("dinner", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "egg and ham"
    events = await durable(handle)
    dispatched, results = of(events, "dispatched", "cook"), of(events, "result", "cook")
    assert max(event.seq for event in dispatched) < min(event.seq for event in results)


async def test_a_delegation_by_capability_goes_to_whoever_has_it(mesh: Mesh, troupe: Troupe) -> None:
    found: list[ArchonError] = []

    async def fry(task: TaskContext) -> str:
        return "fried"

    await troupe("fryer", fry, capabilities=[Capability("fry")])
    await troupe("chef", failing_to(found, capability="fry"))
    handle = await mesh.client.submit("egg", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "fried"
    (delegated,) = of(await durable(handle), "delegated")
    assert (delegated.delegated.role, delegated.delegated.capability) == ("fryer", "fry")


async def test_a_capability_that_the_delegating_role_has_too_goes_to_another_that_has_it(
    mesh: Mesh, troupe: Troupe
) -> None:
    found: list[ArchonError] = []

    async def fry(task: TaskContext) -> str:
        return "fried by another"

    await troupe("chef", failing_to(found, capability="fry"), capabilities=[Capability("fry")])
    await troupe("fryer", fry, capabilities=[Capability("fry")])
    run = (await mesh.client.submit("egg", roles=["chef"], wait=10)).run
    assert answer_text(run) == "fried by another", found


@pytest.mark.parametrize(
    ("target", "expected", "about"),
    [
        ({"role": "nobody"}, UnknownRole, {"role": "nobody"}),
        ({"capability": "juggle"}, UnknownCapability, {"capability": "juggle"}),
        ({}, InvalidArgument, {}),
        ({"role": "chef", "capability": "juggle"}, InvalidArgument, {}),
    ],
    ids=["unknown role", "unknown capability", "neither", "both"],
)
async def test_a_delegation_to_nobody_is_a_typed_error_and_the_run_goes_on(
    mesh: Mesh, troupe: Troupe, target: dict[str, str], expected: type[ArchonError], about: dict[str, str]
) -> None:
    found: list[ArchonError] = []
    await troupe("chef", failing_to(found, **target))
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert run.state == COMPLETED
    assert len(run.tasks) == 1
    (error,) = found
    assert type(error) is expected
    assert error.metadata == about


async def test_contract_rule_8_a_loop_is_refused_with_its_chain(mesh: Mesh, troupe: Troupe) -> None:
    found: list[ArchonError] = []
    await troupe("narcissus", failing_to(found, role="narcissus"))
    await troupe("echo-b", failing_to(found, role="echo-a"))
    await troupe("echo-a", failing_to(found, role="echo-b"))
    for role in ("narcissus", "echo-a"):
        assert (await mesh.client.submit("x", roles=[role], wait=10)).run.state == COMPLETED
    assert [type(error) for error in found] == [DelegationLoop] * 2
    assert [error.metadata["chain"] for error in found] == [
        "narcissus -> narcissus",
        "echo-a -> echo-b -> echo-a",
    ]


async def test_contract_rule_8_delegations_nest_as_deep_as_the_budget_says(mesh: Mesh, troupe: Troupe) -> None:
    found: list[ArchonError] = []

    async def last(task: TaskContext) -> str:
        return " -> ".join(task.delegation_chain)

    await troupe("first", failing_to(found, role="second"))
    await troupe("second", failing_to(found, role="third"))
    await troupe("third", last)
    for depth, answer in ((1, "no answer: DELEGATION_TOO_DEEP"), (2, "first -> second")):
        budget = common_pb2.Budget(max_depth=depth)
        run = (await mesh.client.submit("x", roles=["first"], budget=budget, wait=10)).run
        assert answer_text(run) == answer
    (error,) = found
    assert isinstance(error, DelegationTooDeep)
    assert error.metadata["max_depth"] == "1"


async def test_contract_rule_8_a_delegation_says_how_deep_what_comes_of_it_may_nest(mesh: Mesh, troupe: Troupe) -> None:
    found: list[ArchonError] = []
    await troupe("first", failing_to(found, role="second", budget=common_pb2.Budget(max_depth=1)))
    await troupe("second", failing_to(found, role="third"))
    await troupe("third", failing_to(found, role="requirements"))
    assert (await mesh.client.submit("x", roles=["first"], wait=10)).run.state == COMPLETED
    assert [type(error) for error in found] == [DelegationTooDeep], "third is one below second, and nobody is below it"


async def test_a_childs_failure_and_its_refusal_come_to_the_parent_as_they_were(mesh: Mesh, troupe: Troupe) -> None:
    found: list[ArchonError] = []
    ways: list[BaseException] = [
        FailedPrecondition("no licence", reason="LICENCE", metadata={"which": "pro"}),
        TaskRejected("I don't cook"),
        ValueError("not of ours"),
    ]

    async def cook(task: TaskContext) -> str:
        raise ways.pop(0)

    await troupe("cook", cook)
    await troupe("chef", failing_to(found, role="cook"))
    states = []
    for _ in range(3):
        run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
        assert run.state == COMPLETED, "whoever delegated deals with it"
        states.append(run.tasks[1].state)
    licence, rejected, other = found
    assert type(licence) is FailedPrecondition
    assert (licence.message, licence.metadata["which"]) == ("no licence", "pro")
    assert rejected.message == "I don't cook"
    assert type(other) is Internal, "what isn't of ours stays in the log of its process"
    assert states == [common_pb2.TASK_STATE_FAILED, common_pb2.TASK_STATE_REJECTED, common_pb2.TASK_STATE_FAILED]


async def test_a_childs_failure_that_the_parent_does_not_catch_is_the_runs_typed(mesh: Mesh, troupe: Troupe) -> None:
    async def chef(task: TaskContext) -> str:
        return (await task.delegate("x", role="nobody")).text

    await troupe("chef", chef)
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert run.state == common_pb2.TASK_STATE_FAILED
    assert run.failure.metadata["role"] == "nobody"


@pytest.mark.parametrize(("key", "children"), [("egg", 1), ("", 2)], ids=["by key", "without a key"])
async def test_contract_rule_8_the_same_key_gives_one_child_and_the_same_input_without_a_key_one_for_each_time(
    mesh: Mesh, troupe: Troupe, key: str, children: int
) -> None:
    asked: list[str] = []

    async def cook(task: TaskContext) -> str:
        asked.append(task.text)
        return f"egg {len(asked)}"

    async def chef(task: TaskContext) -> str:
        said = [await task.delegate("an egg", role="cook", memo_key=key) for _ in range(2)]
        said.append(await task.delegate("another", role="cook", memo_key=key)) if key else None
        return ", ".join(f"{answer.text} {answer.memoized}" for answer in said)

    await troupe("cook", cook)
    await troupe("chef", chef)
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    expected = "egg 1 False, egg 1 True, egg 1 True" if key else "egg 1 False, egg 2 False"
    assert answer_text(run) == expected
    assert len(run.tasks) == 1 + children
    assert asked == ["an egg"] * children
