"""Delegations (rule C8): answers, refusals, failures and memo keys."""

from __future__ import annotations

import asyncio

import pytest

from archon import types
from archon.agent import TaskContext, TaskRejected
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
from archon.types import Budget, TaskState
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe, durable, failing_to, of

COMPLETED = TaskState.COMPLETED


async def test_contract_rule_8_a_delegation_is_a_task_of_the_same_run(mesh: Mesh, troupe: Troupe) -> None:
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
    assert [answer.role for answer in run.answers] == ["chef"], "a delegated answer is not an answer of the run"


async def test_delegations_of_one_task_run_at_the_same_time(mesh: Mesh, troupe: Troupe) -> None:
    both = asyncio.Barrier(2)

    async def cook(task: TaskContext) -> str:
        await both.wait()  # a single task would wait for ever
        return task.text

    async def chef(task: TaskContext) -> str:
        answers = await asyncio.gather(task.delegate("egg", role="cook"), task.delegate("ham", role="cook"))
        return " and ".join(answer.text for answer in answers)

    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("dinner", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "egg and ham"
    events = await durable(handle)
    dispatched, results = of(events, "dispatched", "cook"), of(events, "result", "cook")
    assert max(event.seq for event in dispatched) < min(event.seq for event in results)


async def test_a_delegation_by_capability_goes_to_a_role_with_it(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []

    async def fry(task: TaskContext) -> str:
        return "fried"

    await troupe("fryer", fry, capabilities=[Capability("fry")])
    await troupe("chef", failing_to(errors, capability="fry"))
    handle = await mesh.client.submit("egg", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "fried"
    (delegated,) = of(await durable(handle), "delegated")
    assert (delegated.delegated.role, delegated.delegated.capability) == ("fryer", "fry")


async def test_a_delegation_by_capability_never_goes_to_its_own_role(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []

    async def fry(task: TaskContext) -> str:
        return "fried by the fryer"

    await troupe("chef", failing_to(errors, capability="fry"), capabilities=[Capability("fry")])
    await troupe("fryer", fry, capabilities=[Capability("fry")])
    run = (await mesh.client.submit("egg", roles=["chef"], wait=10)).run
    assert answer_text(run) == "fried by the fryer", errors


@pytest.mark.parametrize(
    ("target", "expected", "about"),
    [
        ({"role": "absent"}, UnknownRole, {"role": "absent"}),
        ({"capability": "juggle"}, UnknownCapability, {"capability": "juggle"}),
        ({}, InvalidArgument, {}),
        ({"role": "chef", "capability": "juggle"}, InvalidArgument, {}),
    ],
    ids=["unknown role", "unknown capability", "neither", "both"],
)
async def test_a_delegation_to_an_unknown_target_is_a_typed_error(
    mesh: Mesh, troupe: Troupe, target: dict[str, str], expected: type[ArchonError], about: dict[str, str]
) -> None:
    errors: list[ArchonError] = []
    await troupe("chef", failing_to(errors, **target))
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert run.state == COMPLETED
    assert len(run.tasks) == 1
    (error,) = errors
    assert type(error) is expected
    assert error.metadata == about


async def test_contract_rule_8_a_loop_is_refused_with_its_chain(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []
    await troupe("narcissus", failing_to(errors, role="narcissus"))
    await troupe("echo-b", failing_to(errors, role="echo-a"))
    await troupe("echo-a", failing_to(errors, role="echo-b"))
    for role in ("narcissus", "echo-a"):
        assert (await mesh.client.submit("x", roles=[role], wait=10)).run.state == COMPLETED
    assert [type(error) for error in errors] == [DelegationLoop] * 2
    assert [error.metadata["chain"] for error in errors] == [
        "narcissus -> narcissus",
        "echo-a -> echo-b -> echo-a",
    ]


async def test_contract_rule_8_the_budget_limits_the_depth(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []

    async def last(task: TaskContext) -> str:
        return " -> ".join(task.delegation_chain)

    await troupe("first", failing_to(errors, role="second"))
    await troupe("second", failing_to(errors, role="third"))
    await troupe("third", last)
    for depth, answer in ((1, "no answer: DELEGATION_TOO_DEEP"), (2, "first -> second")):
        budget = Budget(max_depth=depth)
        run = (await mesh.client.submit("x", roles=["first"], budget=budget, wait=10)).run
        assert answer_text(run) == answer
    (error,) = errors
    assert isinstance(error, DelegationTooDeep)
    assert error.metadata["max_depth"] == "1"


async def test_contract_rule_8_a_delegation_may_limit_its_depth(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []
    await troupe("first", failing_to(errors, role="second", budget=types.Budget(max_depth=1)))
    await troupe("second", failing_to(errors, role="third"))
    await troupe("third", failing_to(errors, role="requirements"))
    assert (await mesh.client.submit("x", roles=["first"], wait=10)).run.state == COMPLETED
    assert [type(error) for error in errors] == [DelegationTooDeep], (
        "third may not delegate, it is at the maximum depth"
    )


async def test_a_childs_failures_reach_the_parent_unchanged(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []
    ways: list[BaseException] = [
        FailedPrecondition("no licence", reason="LICENCE", metadata={"which": "pro"}),
        TaskRejected("cooking is not offered"),
        ValueError("not an ArchonError"),
    ]

    async def cook(task: TaskContext) -> str:
        raise ways.pop(0)

    await troupe("cook", cook)
    await troupe("chef", failing_to(errors, role="cook"))
    states = []
    for _ in range(3):
        run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
        assert run.state == COMPLETED, "the parent handles the failure"
        states.append(run.tasks[1].state)
    licence, rejected, unexpected = errors
    assert type(licence) is FailedPrecondition
    assert (licence.message, licence.metadata["which"]) == ("no licence", "pro")
    assert rejected.message == "cooking is not offered"
    assert type(unexpected) is Internal, "the details stay in the log of the process"
    assert states == [TaskState.FAILED, TaskState.REJECTED, TaskState.FAILED]


async def test_a_childs_failure_that_is_not_caught_fails_the_run(mesh: Mesh, troupe: Troupe) -> None:
    async def chef(task: TaskContext) -> str:
        return (await task.delegate("x", role="absent")).text

    await troupe("chef", chef)
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert run.state == TaskState.FAILED
    assert run.proto.failure.metadata["role"] == "absent"


@pytest.mark.parametrize(("key", "children"), [("egg", 1), ("", 2)], ids=["by key", "without a key"])
async def test_contract_rule_8_the_same_memo_key_gives_one_child(
    mesh: Mesh, troupe: Troupe, key: str, children: int
) -> None:
    inputs: list[str] = []

    async def cook(task: TaskContext) -> str:
        inputs.append(task.text)
        return f"egg {len(inputs)}"

    async def chef(task: TaskContext) -> str:
        answers = [await task.delegate("an egg", role="cook", memo_key=key) for _ in range(2)]
        answers.append(await task.delegate("another", role="cook", memo_key=key)) if key else None
        return ", ".join(f"{answer.text} {answer.memoized}" for answer in answers)

    await troupe("cook", cook)
    await troupe("chef", chef)
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    expected = "egg 1 False, egg 1 True, egg 1 True" if key else "egg 1 False, egg 2 False"
    assert answer_text(run) == expected
    assert len(run.tasks) == 1 + children
    assert inputs == ["an egg"] * children
