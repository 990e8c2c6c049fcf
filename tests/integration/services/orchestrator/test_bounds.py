"""Limits of an orchestrator: requests above them are refused with a delay, and what it stores expires."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from archon import TaskContext, status
from archon.agent import Question
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client, answer_text
from archon.errors import ArchonError, ResourceExhausted, RunExpired, Unavailable, UnknownRun
from archon.memory import MemoryGraphClient
from archon.testing import FakeAgent
from archon.types import Run, TaskState
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry import RegistrySettings, registry_app
from tests.fixtures.mesh import Mesh, ProcessMesh
from tests.fixtures.waiting import eventually, hold

MB = 1024 * 1024
DELTA = "d" * 16_000


@pytest.fixture
async def here() -> AsyncIterator[tuple[str, str]]:
    """The addresses of a registry and an orchestrator in the test's process, so that a test can lower their limits."""
    async with registry_app(RegistrySettings(etcd="memory")) as registry:
        settings = OrchestratorSettings(registry=registry, memory="", journal="memory")
        async with orchestrator_app(settings) as orchestrator:
            yield registry, orchestrator


@pytest.fixture
async def bounded_mesh(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """A mesh whose orchestrator has the environment that the test is parametrized with."""
    mesh = Mesh(tmp_path)
    await mesh.start(**request.param)
    yield mesh
    await mesh.stop()


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_MAX_RUNS": "2"}], indirect=True)
async def test_a_submit_above_max_runs_is_refused_with_a_delay(bounded_mesh: Mesh) -> None:
    mesh = bounded_mesh
    release = asyncio.Event()

    async def wait_for_release(task: TaskContext) -> str:
        await release.wait()
        return "done"

    async with FakeAgent("holder", [wait_for_release] * 3, registry=mesh.registry.address) as agent:
        await mesh.seen(agent.address)
        first = [await mesh.client.submit(f"{n}", roles=["holder"]) for n in range(2)]
        with pytest.raises(ResourceExhausted) as refused:
            await mesh.client.submit("third", roles=["holder"], request_id="third")
        assert refused.value.retry_delay
        release.set()
        for handle in first:
            await handle.result(timeout=10)
        third = await mesh.client.submit("third", roles=["holder"], request_id="third", wait=10)
        assert third.run.state == TaskState.COMPLETED


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_MAX_RUNS": "2", "ARCHON_MAX_PAUSED_RUNS": "1"}], indirect=True)
async def test_paused_runs_leave_room_for_others(bounded_mesh: Mesh) -> None:
    mesh = bounded_mesh
    release = asyncio.Event()

    async def wait_for_release(task: TaskContext) -> str:
        await release.wait()
        return "done"

    async with FakeAgent("holder", [wait_for_release] * 3, registry=mesh.registry.address) as agent:
        await mesh.seen(agent.address)
        first, second = [await mesh.client.submit(f"{n}", roles=["holder"]) for n in range(2)]
        await mesh.client.pause(first.run_id)

        async def third_accepted() -> bool:
            try:
                await mesh.client.submit("third", roles=["holder"], request_id="third")
            except ResourceExhausted:
                return False
            return True

        await eventually(third_accepted)
        with pytest.raises(ResourceExhausted):
            await mesh.client.submit("fourth", roles=["holder"])
        await mesh.client.resume(first.run_id)
        release.set()
        for handle in (first, second):
            assert answer_text(await handle.result(timeout=10)) == "done"


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_MAX_PAUSED_RUNS": "1"}], indirect=True)
async def test_a_pause_above_max_paused_runs_is_refused_with_a_delay(bounded_mesh: Mesh) -> None:
    mesh = bounded_mesh
    release = asyncio.Event()

    async def wait_for_release(task: TaskContext) -> str:
        await release.wait()
        return "done"

    async with FakeAgent("holder", [wait_for_release] * 2, registry=mesh.registry.address) as agent:
        await mesh.seen(agent.address)
        first, second = [await mesh.client.submit(f"{n}", roles=["holder"]) for n in range(2)]
        await mesh.client.pause(first.run_id)

        async def refused() -> bool:
            try:
                await mesh.client.pause(second.run_id)
            except ResourceExhausted as error:
                return "max_paused_runs" in error.message and bool(error.retry_delay)
            await mesh.client.resume(second.run_id)
            return False

        await eventually(refused)
        await mesh.client.pause(first.run_id)  # it is paused already
        release.set()
        assert answer_text(await second.result(timeout=10)) == "done"


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_PAUSE_TIMEOUT": "1"}], indirect=True)
async def test_a_run_that_is_paused_for_too_long_fails(bounded_mesh: Mesh) -> None:
    mesh = bounded_mesh

    async def work(task: TaskContext) -> str | Question:
        return Question("which?", input_id="which")

    async with FakeAgent("worker", [work], registry=mesh.registry.address) as agent:
        await mesh.seen(agent.address)
        asking = await mesh.client.submit("x", roles=["worker"])
        run = await asking.result(timeout=10)
        assert (run.state, run.proto.failure.message) == (
            TaskState.FAILED,
            "the run waited for an answer of a person for 1 s",
        )
        assert status.from_failure(run.proto.failure).reason == "PAUSE_EXPIRED"


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_MAX_FAILURES": "3"}], indirect=True)
async def test_a_submit_is_refused_while_most_attempts_fail(bounded_mesh: Mesh) -> None:
    mesh = bounded_mesh
    release = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        await release.wait()
        return "done"

    def fail(task: TaskContext) -> str:
        raise Unavailable("the model is down", kind="model.provider", retry_delay=0.01)

    registry = mesh.registry.address
    async with (
        FakeAgent("patient", [wait], registry=registry) as patient,
        FakeAgent("failing", [fail] * 6, registry=registry) as failing,
    ):
        for agent in (patient, failing):
            await mesh.seen(agent.address)
        waiting = await mesh.client.submit("x", roles=["patient"])
        for _ in range(2):
            run = (await mesh.client.submit("x", roles=["failing"], wait=10)).run
            assert run.state == TaskState.FAILED
        with pytest.raises(ResourceExhausted) as refused:
            await mesh.client.submit("x", roles=["patient"])
        assert refused.value.reason == "ERROR_BUDGET_EXHAUSTED"
        assert refused.value.retry_delay is not None
        release.set()
        assert answer_text(await waiting.result(timeout=10)) == "done", "runs under way go on"


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_COMPACT_AFTER": "1", "ARCHON_DELETE_AFTER": "5"}], indirect=True)
async def test_durability_7_an_ended_run_is_compacted_and_then_deleted(
    bounded_mesh: Mesh,
) -> None:
    mesh = bounded_mesh
    agent = await mesh.agent("solo")
    run = (await mesh.client.submit("x", roles=["solo"], wait=10)).run
    second = (await mesh.client.submit("y", roles=["solo"], wait=10)).run
    await mesh.directory.pin_edges([("solo", "reader")])  # a role with an edge stays known
    await agent.stop(0.0)
    open_run = await mesh.client.submit("z", roles=["solo"])

    async def compacted() -> bool:
        try:
            return [event async for event in mesh.client.watch(run.run_id)] == []
        except RunExpired:
            return True

    await mesh.advance(2.0)
    await eventually(compacted)
    assert (await mesh.client.get(run.run_id)).answers == run.answers, "compaction keeps the answers"
    with pytest.raises(RunExpired):
        await mesh.client.fork(run.run_id)

    async def gone() -> bool:
        return [listed.run_id for listed in await mesh.client.list_runs()] == [open_run.run_id]

    await mesh.advance(6.0)
    await eventually(gone)
    for run_id in (run.run_id, second.run_id):
        with pytest.raises(UnknownRun):
            [event async for event in mesh.client.watch(run_id)]
    assert (await mesh.client.get(open_run.run_id)).last_seq, "a run in progress is kept"


@pytest.mark.parametrize("bounded_mesh", [{"ARCHON_DELETE_AFTER": "2"}], indirect=True)
async def test_items_without_a_session_are_deleted_with_their_run(
    bounded_mesh: Mesh,
) -> None:
    mesh = bounded_mesh
    await mesh.agent("one")
    await mesh.agent("two", "one")

    async def texts(scope: str) -> list[str]:
        async with MemoryGraphClient(mesh.memory.address, scope) as memory:
            return [item.content for item in await memory.pull_for("two")]

    async def published() -> bool:
        return await texts("s") == await texts(run.run_id) == ["one()"]

    async def forgotten() -> bool:
        return await texts(run.run_id) == []

    await mesh.client.submit("x", session_id="s", wait=10)
    run = (await mesh.client.submit("x", wait=10)).run
    await eventually(published)
    await mesh.advance(3.0)
    await eventually(forgotten)
    assert await texts("s") == ["one()"]


async def test_a_watcher_that_never_reads_loses_deltas_only(process_mesh: ProcessMesh) -> None:
    mesh = process_mesh

    async def chatty(task: TaskContext) -> str:
        for _ in range(60):  # as fast as the agent's queue accepts them
            for _ in range(100):
                task.write(DELTA)
            await hold(0.02)
        return "done"

    async with FakeAgent("chatty", [chatty], registry=mesh.registry.address) as agent:
        await mesh.seen(agent.address)
        handle = await mesh.client.submit("x", roles=["chatty"])
        idle: Any = mesh.client._stub.WatchRun(pb.WatchRunRequest(run_id=handle.run_id))
        first = await anext(aiter(idle))
        orchestrator = psutil.Process(mesh.orchestrator.pid)
        before = orchestrator.memory_info().rss
        run = await handle.result(timeout=30)
        grown = (orchestrator.memory_info().rss - before) / MB
        kinds: Counter[str] = Counter()
        seqs: list[int] = []
        for message in [first, *[message async for message in idle]]:
            for event in message.events:
                kinds[str(event.WhichOneof("event"))] += 1
                seqs += [event.seq] if event.seq else []
    assert seqs == list(range(1, run.last_seq + 1))
    assert kinds["text_delta"] < 3_000, "of 6,000"
    assert grown < 40, f"{grown:.0f} MB, of deltas of 96 MB"


@dataclass(frozen=True)
class LargeRun:
    """A run whose results are together above the limit of a message: the response to its submit, and its events as
    they came."""

    submitted: Run
    events: Sequence[run_pb2.RunEvent]


@pytest.fixture(scope="module")
async def large(mesh: Mesh) -> LargeRun:
    """A run of 17 results of 1 MB, which has ended: submitted with a wait for its end, and watched meanwhile."""
    roles = [f"large-{number}" for number in range(17)]
    async with AsyncExitStack() as stack:
        for role in roles:
            agent = FakeAgent(role, ["x" * MB], registry=mesh.registry.address)
            await mesh.seen((await stack.enter_async_context(agent)).address)
        submitting = asyncio.create_task(mesh.client.submit("x", roles=roles, wait=30))

        async def begun() -> bool:
            return bool(await mesh.client.list_runs())

        await eventually(begun)
        (listed,) = await mesh.client.list_runs()
        events = [event.proto async for event in mesh.client.watch(listed.run_id)]
        return LargeRun((await submitting).run, events)


def results(events: Iterable[run_pb2.RunEvent]) -> list[run_pb2.RunEvent]:
    return [event for event in events if event.WhichOneof("event") == "result"]


async def test_large_results_are_sent_in_several_messages(mesh: Mesh, large: LargeRun) -> None:
    run_id = large.submitted.run_id
    assert len(results(large.events)) == 17
    again = results([event.proto async for event in mesh.client.watch(run_id)])
    assert again == results(large.events), "the journal has the same results"
    with pytest.raises(ResourceExhausted) as refused:
        await mesh.client.get(run_id)
    assert refused.value.reason == "MESSAGE_TOO_LARGE"
    async with mesh.client.converse() as conversation:
        await conversation.watch(run_id)
        await conversation.done()


async def test_a_command_for_a_large_run_succeeds_with_a_truncated_run(mesh: Mesh, large: LargeRun) -> None:
    run = large.submitted
    assert (run.state, run.truncated, len(run.tasks)) == (TaskState.COMPLETED, True, 17)
    with pytest.raises(ResourceExhausted) as missing:
        answer_text(run)
    assert missing.value.reason == "MESSAGE_TOO_LARGE"
    cancelled = (await mesh.client._stub.CancelRun(pb.CancelRunRequest(run_id=run.run_id))).run
    assert (cancelled.state, cancelled.truncated) == (common_pb2.TASK_STATE_COMPLETED, True)
    async with mesh.client.converse() as conversation:
        followed = await conversation.watch(run.run_id)
        assert followed.truncated
        await conversation.done()


async def test_a_watch_above_max_watchers_is_refused_with_a_delay(
    here: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.orchestrator.watch.hub.MAX_WATCHERS", 2)
    registry, orchestrator = here
    async with FakeAgent("idle", [], registry=registry) as agent, Client(orchestrator) as client:
        agent.then(lambda task: asyncio.Event().wait())
        handle = await client.submit("x", roles=["idle"])
        watches = [client._stub.WatchRun(pb.WatchRunRequest(run_id=handle.run_id)) for _ in range(2)]
        for watch in watches:
            await watch.read()
        with pytest.raises(ResourceExhausted) as refused:
            [event async for event in client.watch(handle.run_id)]
        assert refused.value.retry_delay
        watches[0].cancel()

        async def room() -> bool:
            watch: Any = client._stub.WatchRun(pb.WatchRunRequest(run_id=handle.run_id))
            try:
                return bool((await watch.read()).events)
            except Exception:  # noqa: BLE001 - it is still refused
                return False
            finally:
                watch.cancel()

        await eventually(room)
        await handle.cancel()


async def test_a_submit_above_the_runs_of_a_stream_is_refused(
    here: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.orchestrator.api.converse_stream.MAX_RUNS", 3)
    registry, orchestrator = here
    release = asyncio.Event()

    async def wait_for_release(task: TaskContext) -> str:
        await release.wait()
        return "done"

    async with (
        FakeAgent("holder", [wait_for_release] * 4, registry=registry) as agent,
        Client(orchestrator) as client,
        client.converse() as conversation,
    ):
        submits = [conversation.submit(f"{n}", roles=["holder"]) for n in range(6)]
        answers = await asyncio.gather(*submits, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, ArchonError)]
        assert len(refused) == 3
        assert all(isinstance(error, ResourceExhausted) and error.retry_delay for error in refused)
        release.set()
        ended = 0
        async for event in conversation:
            ended += event.type == "run_state"
            if ended == 3:
                break
        assert (await conversation.submit("later", roles=["holder"])).run_id
        await conversation.done()
        rest = [event async for event in conversation]
        assert rest[-1].proto.run_state.state == common_pb2.TASK_STATE_COMPLETED
        assert len(agent.tasks) == 4
