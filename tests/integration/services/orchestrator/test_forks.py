"""Forks of runs on real services, over each journal: what had finished is reused, the rest is executed anew."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from archon.agent import Answer, Question, TaskContext
from archon.client import RunHandle, answer_text
from archon.errors import EmptyGoal, Internal, InvalidArgument, RequestIdReused, ResourceExhausted, UnknownRun
from archon.memory import MemoryGraphClient
from archon.types import Run, TaskState, Usage
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
async def mesh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mesh]:
    """A mesh without agents, whose orchestrator has each journal in turn."""
    mesh = Mesh(tmp_path_factory.mktemp("mesh"))
    async with AsyncExitStack() as stack:
        journal = {"memory": "memory", "sqlite": str(mesh.home / "journal.db")}.get(request.param)
        if journal is None:
            server = request.getfixturevalue("postgres")
            database = server.create_database()
            stack.callback(server.drop_database, database)
            journal = server.dsn(database)
        await mesh.start(ARCHON_JOURNAL=journal)
        stack.push_async_callback(mesh.stop)
        yield mesh


@dataclass
class Kitchen:
    """Three roles in a row, `shop` -> `cook` -> `taste`; `cook` fails until `ready`."""

    roles: list[str]
    executed: list[tuple[str, str]] = field(default_factory=list)
    contexts: list[list[str]] = field(default_factory=list)
    ready: bool = False
    hold: asyncio.Event | None = None

    async def shop(self, task: TaskContext) -> Answer:
        self.executed.append(("shop", task.run_id))
        usage = Usage(input_tokens=100, output_tokens=50)
        return Answer(f"goods for {task.text}", usage=usage, metadata={"shop": "corner"})

    async def cook(self, task: TaskContext) -> str:
        self.executed.append(("cook", task.run_id))
        self.contexts.append([item.text for item in task.context])
        if self.hold is not None:
            await self.hold.wait()
        if not self.ready:
            raise Internal("the oven is cold")
        return f"{task.text} from {task.context[0].text} ({task.metadata.get('dev.test.table', '-')})"

    async def taste(self, task: TaskContext) -> str:
        self.executed.append(("taste", task.run_id))
        return f"tasted {task.context[0].text}"

    def of(self, run_id: str) -> list[str]:
        """The roles that were executed for a run."""
        return [role for role, of_run in self.executed if of_run == run_id]


@pytest.fixture
async def kitchen(mesh: Mesh, troupe: Troupe) -> Kitchen:
    """The three roles with names of their own."""
    kitchen = Kitchen([f"{role}-{uuid.uuid4().hex[:6]}" for role in ("shop", "cook", "taste")])
    shop, cook, taste = kitchen.roles
    await troupe(shop, kitchen.shop)
    await troupe(cook, kitchen.cook, depends_on=[shop])
    await troupe(taste, kitchen.taste, depends_on=[cook])
    return kitchen


def journal_of(mesh: Mesh) -> str:
    """The value of ARCHON_JOURNAL."""
    return mesh.journal


async def failed_run(mesh: Mesh, kitchen: Kitchen, **options: object) -> Run:
    """A run whose second task failed."""
    run = (await mesh.client.submit("soup", roles=kitchen.roles, wait=15, **options)).run  # type: ignore[arg-type]
    assert (run.state, [task.state for task in run.tasks][:2]) == (FAILED, [COMPLETED, FAILED])
    return run


async def test_a_fork_reuses_the_completed_tasks_of_a_failed_run(mesh: Mesh, kitchen: Kitchen) -> None:
    source = await failed_run(mesh, kitchen, metadata={"dev.test.table": "4"}, timeout=120.0)
    kitchen.ready = True
    handle = await mesh.client.fork(source.run_id)
    run = await handle.result(timeout=15)
    assert run.state == COMPLETED
    assert answer_text(run) == "tasted soup from goods for soup (4)"
    assert kitchen.of(run.run_id) == ["cook", "taste"]
    assert run.parent_run_id == source.run_id != run.run_id
    assert dict(run.metadata) == {"dev.test.table": "4"}
    reused, *others = run.tasks
    assert (reused.state, reused.attempt, reused.instance_id) == (COMPLETED, 0, "")
    assert [task.attempt for task in others] == [1, 1]
    assert source.tasks[0].usage.input_tokens == 100
    assert not run.usage.input_tokens
    first = (await durable(handle))[0].submitted
    assert first.timeout.seconds == 120


async def test_reused_answers_are_published_for_the_new_run(mesh: Mesh, kitchen: Kitchen) -> None:
    source = await failed_run(mesh, kitchen)
    kitchen.ready = True
    run = await (await mesh.client.fork(source.run_id)).result(timeout=15)
    expected = {(role, run.run_id) for role in kitchen.roles[:2]}
    async with MemoryGraphClient(mesh.memory.address, run.run_id) as memory:

        async def published() -> set[tuple[str, str]]:
            return {(item.source_id, item.run_id) for item in await memory.pull_for_indirect(kitchen.roles[2])}

        async def complete() -> bool:
            return len(await published()) >= len(expected)

        await eventually(complete, 20)
        assert await published() == expected


async def test_a_fork_from_an_event_reuses_what_had_finished_by_then(mesh: Mesh, kitchen: Kitchen) -> None:
    kitchen.ready = True
    handle = await mesh.client.submit("soup", roles=kitchen.roles)
    source = await handle.result(timeout=15)
    results = of(await durable(handle), "result")
    for after_seq, executed in ((1, ["shop", "cook", "taste"]), (results[1].seq, ["taste"])):
        run = await (await mesh.client.fork(source.run_id, after_seq=after_seq)).result(timeout=15)
        assert (run.state, kitchen.of(run.run_id)) == (COMPLETED, executed)


async def test_a_fork_of_a_completed_run_is_completed_at_once(mesh: Mesh, kitchen: Kitchen) -> None:
    kitchen.ready = True
    source = (await mesh.client.submit("soup", roles=kitchen.roles, wait=15)).run
    handle = await mesh.client.fork(source.run_id)
    run = handle.run
    assert (run.state, answer_text(run)) == (COMPLETED, answer_text(source))
    assert kitchen.of(run.run_id) == []
    assert [event.WhichOneof("event") for event in await durable(handle)][-1] == "run_state"
    again = await (await mesh.client.fork(run.run_id)).result(timeout=15)
    assert (again.parent_run_id, answer_text(again)) == (run.run_id, answer_text(source))


async def test_a_fork_may_have_another_goal(mesh: Mesh, kitchen: Kitchen) -> None:
    source = await failed_run(mesh, kitchen)
    kitchen.ready = True
    run = await (await mesh.client.fork(source.run_id, goal="stew")).result(timeout=15)
    assert run.goal[0].text == "stew"
    assert answer_text(run) == "tasted stew from goods for stew (-)"
    assert kitchen.of(run.run_id) == ["shop", "cook", "taste"]


async def test_a_fork_with_another_goal_keeps_what_its_caller_names(mesh: Mesh, kitchen: Kitchen) -> None:
    source = await failed_run(mesh, kitchen)
    kitchen.ready = True
    run = await (await mesh.client.fork(source.run_id, goal="stew", after_seq=source.last_seq)).result(timeout=15)
    assert answer_text(run) == "tasted stew from goods for soup (-)"


async def test_a_fork_of_a_completed_run_with_another_goal_has_an_answer_of_its_own(
    mesh: Mesh, kitchen: Kitchen
) -> None:
    kitchen.ready = True
    source = (await mesh.client.submit("soup", roles=kitchen.roles, wait=15)).run
    run = await (await mesh.client.fork(source.run_id, goal="stew")).result(timeout=15)
    assert answer_text(run) == "tasted stew from goods for stew (-)"
    same = await (await mesh.client.fork(source.run_id, goal="soup")).result(timeout=15)
    assert (answer_text(same), kitchen.of(same.run_id)) == (answer_text(source), [])


async def test_a_fork_asks_no_person_again(mesh: Mesh, troupe: Troupe) -> None:
    """The clerk asks, resumes from its checkpoint with the answer, and fails until it is ready."""
    clerk, seen, ready = f"clerk-{uuid.uuid4().hex[:6]}", list[tuple[str, bytes]](), asyncio.Event()

    async def work(task: TaskContext) -> str | Question:
        seen.append((task.input_text, task.checkpoint))
        if not task.inputs:
            return Question("which table?", checkpoint=b"asked")
        if not ready.is_set():
            raise InvalidArgument("the kitchen is closed")
        return f"table {task.input_text}"

    await troupe(clerk, work)
    handle = await mesh.client.submit("dinner", roles=[clerk])

    async def asking() -> bool:
        return bool((await mesh.client.get(handle.run_id)).questions)

    await eventually(asking, 20)
    (question,) = (await mesh.client.get(handle.run_id)).questions
    await mesh.client.respond(handle.run_id, question.input_id, "four")
    assert (await handle.result(timeout=15)).state == FAILED
    ready.set()
    fork = await mesh.client.fork(handle.run_id)
    run = await fork.result(timeout=15)
    assert answer_text(run) == "table four"
    assert seen == [("", b""), ("four", b"asked"), ("four", b"asked")]
    events = await durable(fork)
    (given,) = of(events, "input_given")
    assert given.input_given.input_id == f"{run.run_id}.1/q1"
    assert given.input_given.identity
    assert given.seq < of(events, "dispatched")[0].seq


async def test_a_run_in_progress_is_forked_with_what_has_finished(mesh: Mesh, kitchen: Kitchen) -> None:
    kitchen.ready, kitchen.hold = True, asyncio.Event()
    source = await mesh.client.submit("soup", roles=kitchen.roles)

    async def cooking() -> bool:
        return kitchen.of(source.run_id) == ["shop", "cook"]

    await eventually(cooking, 20)
    fork = await mesh.client.fork(source.run_id)
    kitchen.hold.set()
    for handle in (source, fork):
        assert (await handle.result(timeout=15)).state == COMPLETED
    assert kitchen.of(fork.run_id) == ["cook", "taste"]


async def test_a_fork_is_idempotent_by_its_request_id(mesh: Mesh, kitchen: Kitchen) -> None:
    source = await failed_run(mesh, kitchen)
    request_id = uuid.uuid4().hex
    calls = (mesh.client.fork(source.run_id, request_id=request_id) for _ in range(6))
    handles: list[RunHandle] = await asyncio.gather(*calls)
    assert len({handle.run_id for handle in handles}) == 1
    for other in (
        mesh.client.fork(source.run_id, after_seq=1, request_id=request_id),
        mesh.client.fork(source.run_id, goal="stew", request_id=request_id),
        mesh.client.submit("soup", roles=kitchen.roles, request_id=request_id),
    ):
        with pytest.raises(RequestIdReused):
            await other


async def test_an_invalid_fork_is_refused_with_the_field(mesh: Mesh, kitchen: Kitchen) -> None:
    source = await failed_run(mesh, kitchen)
    for after_seq in (-1, source.last_seq + 1):
        with pytest.raises(InvalidArgument) as refused:
            await mesh.client.fork(source.run_id, after_seq=after_seq)
        assert [violation.field for violation in refused.value.field_violations] == ["after_seq"]
    with pytest.raises(InvalidArgument) as refused:
        await mesh.client.fork(source.run_id, request_id="x" * 257)
    assert [violation.field for violation in refused.value.field_violations] == ["request_id"]
    with pytest.raises(EmptyGoal):
        await mesh.client.fork(source.run_id, goal=" ")
    with pytest.raises(UnknownRun):
        await mesh.client.fork("unknown")


async def test_a_fork_survives_a_restart_without_its_source(mesh: Mesh, kitchen: Kitchen) -> None:
    if journal_of(mesh) == "memory":
        pytest.skip("this journal ends with its process")
    source = await failed_run(mesh, kitchen)
    kitchen.ready, kitchen.hold = True, asyncio.Event()
    handle = await mesh.client.fork(source.run_id)

    async def cooking() -> bool:
        return kitchen.of(handle.run_id) == ["cook"]

    await eventually(cooking, 20)
    await mesh.orchestrator.kill()
    await mesh.orchestrator.start()
    kitchen.hold.set()
    run = await handle.result(timeout=30)
    assert (run.state, run.parent_run_id) == (COMPLETED, source.run_id)
    assert answer_text(run) == "tasted soup from goods for soup (-)"
    assert kitchen.of(run.run_id) == ["cook", "taste"]


async def test_a_delegating_task_finds_its_finished_delegations(mesh: Mesh, troupe: Troupe) -> None:
    lead, helper = f"lead-{uuid.uuid4().hex[:6]}", f"helper-{uuid.uuid4().hex[:6]}"
    executed: list[tuple[str, str]] = []

    async def leads(task: TaskContext) -> str:
        executed.append((lead, task.run_id))
        answer = (await task.delegate("help", role=helper)).text
        if sum(role == lead for role, _ in executed) == 1:
            raise Internal("not today")
        return answer

    async def helps(task: TaskContext) -> str:
        executed.append((helper, task.run_id))
        return "helped"

    await troupe(helper, helps)
    await troupe(lead, leads, coordinator=True)
    source = (await mesh.client.submit("x", roles=[lead], strategy="agent", wait=15)).run
    assert source.state == FAILED
    run = await (await mesh.client.fork(source.run_id)).result(timeout=15)
    assert (run.state, answer_text(run)) == (COMPLETED, "helped")
    assert [role for role, run_id in executed if run_id == run.run_id] == [lead]


async def test_a_fork_above_max_runs_is_refused_with_a_delay(tmp_path: Path) -> None:
    small = Mesh(tmp_path)
    try:
        await small.start(ARCHON_MAX_RUNS="1")
        await small.agent("slow", gate=asyncio.Event())
        source = await small.client.submit("x", roles=["slow"])
        with pytest.raises(ResourceExhausted) as refused:
            await small.client.fork(source.run_id)
        assert refused.value.retry_delay
        await source.cancel()
    finally:
        with suppress(AttributeError):
            await small.stop()
