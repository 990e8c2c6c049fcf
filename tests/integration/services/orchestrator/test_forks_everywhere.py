"""Runs of each kind, forked at every event: the fork ends well or is refused with the reason, and executes nothing that
had finished."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

import pytest

from archon.agent import Question, TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.errors import InvalidArgument
from archon.types import ForkDecision, TaskState
from archon_mesh.planning import committee
from tests.fixtures.mesh import Mesh
from tests.fixtures.plan_replies import reply, subtask
from tests.integration.services.orchestrator.troupe import Troupe, durable

AT_ONCE: Final = 8
"""Forks in progress at a time."""


PATIENCE: Final = 20.0
"""Seconds until a run must have ended."""


class Ledger:
    """The tasks that agents executed, by run: each by its step, or else its role without the suffix."""

    def __init__(self, mesh: Mesh, troupe: Troupe) -> None:
        self.mesh = mesh
        self.suffix = f"-{uuid.uuid4().hex[:6]}"
        self.executed: list[tuple[str, str]] = []
        self._troupe = troupe

    def role(self, name: str) -> str:
        return f"{name}{self.suffix}"

    async def agent(self, name: str, handler: Callable[[TaskContext], Awaitable[Any]], **more: Any) -> None:
        async def noted(task: TaskContext) -> Any:
            self.executed.append((task.run_id, task.step_id or name))
            return await handler(task)

        more["depends_on"] = [self.role(other) for other in more.get("depends_on", ())]
        await self._troupe(self.role(name), noted, max_tasks=50, **more)

    def of(self, run_id: str) -> list[str]:
        return [name for of_run, name in self.executed if of_run == run_id]

    def name(self, task: Any) -> str:
        return str(task.step_id or task.role.removesuffix(self.suffix))


async def a_pipeline(ledger: Ledger) -> RunHandle:
    async def work(task: TaskContext) -> str:
        return f"{task.role} of {len(task.context)}"

    for name, depends in {"read": [], "think": ["read"], "check": ["read"], "write": ["think", "check"]}.items():
        await ledger.agent(name, work, depends_on=depends)
    return await ledger.mesh.client.submit("go", roles=[ledger.role(n) for n in ("read", "think", "check", "write")])


async def a_delegating_agent(ledger: Ledger) -> RunHandle:
    async def leads(task: TaskContext) -> str:
        first = await task.delegate("find it", role=ledger.role("find"))
        second, third = await asyncio.gather(
            task.delegate("weigh it", role=ledger.role("weigh")), task.delegate("again", role=ledger.role("find"))
        )
        return f"{first.text}, {second.text}, {third.text}"

    async def finds(task: TaskContext) -> str:
        return f"found {(await task.delegate('a part', role=ledger.role('dig'))).text} for {task.text}"

    async def answers(task: TaskContext) -> str:
        return f"{task.text} done"

    await ledger.agent("dig", answers)
    await ledger.agent("weigh", answers)
    await ledger.agent("find", finds, coordinator=True)
    await ledger.agent("lead", leads, coordinator=True)
    return await ledger.mesh.client.submit("go", roles=[ledger.role("lead")], strategy="agent")


async def a_plan_with_a_person(ledger: Ledger) -> RunHandle:
    role = ledger.role("worker")
    plans = [
        reply(
            subtask("flight", role=role),
            subtask("hotel", "flight", role=role),
            subtask("cruise", "hotel", role=role, critical=True),
            goal="a trip",
        ),
        reply(subtask("tour", "hotel", role=role), subtask("guide", "hotel", role=role), goal="a trip"),
    ]

    async def works(task: TaskContext) -> str | Question:
        if task.step_id == "cruise":
            raise InvalidArgument("no ship sails")
        if task.step_id == "hotel" and not task.inputs:
            return Question("By the sea?", input_id="sea")
        return f"{task.step_id}({', '.join([item.text for item in task.context] + [task.input_text])})"

    async def makes_plans(task: TaskContext) -> str:
        request = task.plan_request
        assert request is not None
        if request.synthesise:
            return " + ".join(item.text for item in task.context)
        return plans[min(request.revision, 2) - 1]

    await ledger.agent("worker", works)
    await ledger.agent("planner", makes_plans)
    client = ledger.mesh.client
    return await client.submit("a trip", roles=[role], strategy="plan", planner=ledger.role("planner"))


async def a_committee(ledger: Ledger) -> RunHandle:
    async def works(task: TaskContext) -> str:
        return {"committee-2": "12"}.get(task.step_id, "360")

    await ledger.agent("member", works)
    role = ledger.role("member")
    plan = json.dumps(
        {"goal": "an answer", "subtasks": [asdict(step) for step in committee("How many?", roles=[role])]}
    )
    return await ledger.mesh.client.submit("an answer", strategy="plan", roles=[role], plan=plan)


async def to_its_end(ledger: Ledger, handle: RunHandle) -> Any:
    """Returns the run at its end; a person says yes to every question."""
    client = ledger.mesh.client
    async with asyncio.timeout(PATIENCE):
        async for event in handle.events():
            # A fork begins with the questions that were answered before.
            if event.type == "input_requested" and event.proto.task.attempt:
                await client.respond(handle.run_id, event.proto.input_requested.input_id, "yes")
        return await client.get(handle.run_id)


def is_created(event: run_pb2.RunEvent) -> bool:
    return event.HasField("task_state") and event.task_state.state == TaskState.SUBMITTED.proto


async def fork_at(ledger: Ledger, handle: RunHandle, events: list[run_pb2.RunEvent], seq: int, answer: str) -> bool:
    """Forks a run at an event, and checks what comes of it. Returns whether it could be forked."""
    client = ledger.mesh.client
    finished: list[str] = []
    named = {}
    for event in events[:seq]:
        if is_created(event):
            named[event.task.task_id] = ledger.name(event.task_state)
        if event.HasField("result") and event.result.state == TaskState.COMPLETED.proto:
            finished.append(named[event.task.task_id])
    try:
        preview = await client.plan_fork(handle.run_id, after_seq=seq)
    except InvalidArgument as error:
        with pytest.raises(InvalidArgument, match=r"^after_seq: the run has no planner"):
            await client.fork(handle.run_id, after_seq=seq)
        return not error.field_violations
    fork = await client.fork(handle.run_id, after_seq=seq)
    run = await to_its_end(ledger, fork)
    assert (run.state, answer_text(run)) == (TaskState.COMPLETED, answer), (seq, run.failure)
    executed = ledger.of(run.run_id)
    of_source = ledger.of(handle.run_id)
    plans = sum(event.HasField("planned") for event in events[:seq])
    assert executed.count("planner") <= max(0, of_source.count("planner") - plans), "no plan is made twice"
    tasks = [ledger.name(event.task_state) for event in events if is_created(event)]
    for name in {*finished} & {*of_source} - {"planner"}:
        assert executed.count(name) <= tasks.count(name) - finished.count(name), (seq, name, executed)
    reused = sorted(name.removesuffix(ledger.suffix) for name in preview.named(ForkDecision.REUSED))
    assert not {*reused} & {*executed} - {"planner", "find", "dig"}, "a dry run says what is reused"
    return True


KINDS = [a_pipeline, a_delegating_agent, a_plan_with_a_person, a_committee]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_is_forked_at_each_of_its_events(mesh: Mesh, troupe: Troupe, kind: Any) -> None:
    ledger = Ledger(mesh, troupe)
    handle = await kind(ledger)
    source = await to_its_end(ledger, handle)
    assert source.state == TaskState.COMPLETED, source.failure
    events, slots = await durable(handle), asyncio.Semaphore(AT_ONCE)

    async def forked(seq: int) -> bool:
        async with slots:
            return await fork_at(ledger, handle, events, seq, answer_text(source))

    seqs = range(1, len(events) + 1)
    could = await asyncio.gather(*(forked(seq) for seq in seqs))
    refused = [seq for seq, was in zip(seqs, could, strict=True) if not was]
    planned = next((event.seq for event in events if event.HasField("planned")), 0)
    assert all(seq < planned for seq in refused), "only a plan that came with its run cannot be left out"
    assert not refused or kind is a_committee
