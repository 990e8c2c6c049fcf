"""Runs on real services, as a caller sees them."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.channel import connect
from archon.client import Client, answer_text
from archon.errors import (
    FailedPrecondition,
    InvalidArgument,
    OutOfRange,
    RequestIdReused,
    Unimplemented,
    UnknownRun,
)
from archon.memory import MemoryGraphClient
from archon.registry import Capability
from archon.testing import FakeAgent
from archon.types import TaskState
from archon_services.orchestrator.api import run_search
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually, until

STOPPED_WITHIN = 2.0
WHOLE = "implementer(requirements(), designer(requirements()))"


async def test_a_pipeline_delivers_answers_to_downstream_roles(mesh: Mesh) -> None:
    run = (await mesh.client.submit("build it", wait=10)).run
    assert run.state == TaskState.COMPLETED
    assert answer_text(run) == WHOLE
    assert [task.role for task in run.tasks] == ["requirements", "designer", "implementer"]


async def test_a_basic_view_has_all_of_a_run_but_its_tasks(mesh: Mesh) -> None:
    run = await mesh.client.submit("build it", wait=10)
    async with connect(mesh.orchestrator.address) as channel:
        stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        whole = (await stub.GetRun(pb.GetRunRequest(run_id=run.run_id), timeout=5)).run
        basic = (await stub.GetRun(pb.GetRunRequest(run_id=run.run_id, view=pb.RUN_VIEW_BASIC), timeout=5)).run
    assert len(whole.tasks) == 3
    whole.ClearField("tasks")
    assert basic == whole
    assert basic.answers


async def test_a_watch_gives_every_durable_event_once_in_order(mesh: Mesh) -> None:
    watched, shown = asyncio.Event(), asyncio.Event()

    async def talk(task: TaskContext) -> str:
        await watched.wait()
        task.write("thinking")
        await shown.wait()
        return "done"

    events = []
    async with FakeAgent("talker", [talk], registry=mesh.registry.address):
        handle = await mesh.client.submit("x", roles=["talker"])
        async for event in handle.events():
            events.append(event)
            watched.set()
            if event.type == "text_delta":
                shown.set()
    durable = [event.seq for event in events if event.seq]
    assert durable == list(range(1, len(durable) + 1))
    assert events[-1].type == "run_state"
    assert any(event.type == "text_delta" and event.seq == 0 for event in events)


async def test_a_watch_resumes_after_any_event(mesh: Mesh) -> None:
    run = (await mesh.client.submit("build it", wait=10)).run
    for after in (0, 3, run.last_seq - 1, run.last_seq):
        seqs = [event.seq async for event in mesh.client.watch(run.run_id, after)]
        assert seqs == list(range(after + 1, run.last_seq + 1))
    with pytest.raises(OutOfRange):
        await anext(mesh.client.watch(run.run_id, run.last_seq + 1))


async def test_a_request_id_gives_one_run_and_refuses_another_payload(mesh: Mesh) -> None:
    request_id = uuid.uuid4().hex
    handles = await asyncio.gather(*(mesh.client.submit("once", request_id=request_id) for _ in range(8)))
    assert len({handle.run_id for handle in handles}) == 1
    with pytest.raises(RequestIdReused):
        await mesh.client.submit("something else", request_id=request_id)


async def test_a_subset_of_roles_runs_with_the_edges_among_them(mesh: Mesh) -> None:
    run = (await mesh.client.submit("x", roles=["designer", "implementer"], wait=10)).run
    assert answer_text(run) == "implementer(designer())"


async def test_contract_rule_6_answers_are_published_to_the_session(mesh: Mesh) -> None:
    session = uuid.uuid4().hex
    async with MemoryGraphClient(mesh.memory.address, session) as memory:
        for version in (1, 2):
            run_id = (await mesh.client.submit("x", session_id=session, wait=10)).run_id

            async def published(version: int = version) -> bool:
                items = {item.source_id: item.version for item in await memory.pull_for("implementer")}
                return items == {"requirements": version, "designer": version}

            await eventually(published)
            items = {item.source_id: (item.content, item.run_id) for item in await memory.pull_for("implementer")}
            assert items == {
                "requirements": ("requirements()", run_id),
                "designer": ("designer(requirements())", run_id),
            }


async def test_runs_are_listed_newest_first_in_pages(mesh: Mesh) -> None:
    session = uuid.uuid4().hex
    made = [(await mesh.client.submit("x", session_id=session, wait=10)).run_id for _ in range(3)]
    assert [run.run_id for run in await mesh.client.list_runs(session_id=session)] == made[::-1]
    channel = connect(mesh.orchestrator.address)
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
    page = await stub.ListRuns(pb.ListRunsRequest(page_size=2, session_id=session))
    rest = await stub.ListRuns(pb.ListRunsRequest(page_size=2, session_id=session, page_token=page.next_page_token))
    assert [run.run_id for run in [*page.runs, *rest.runs]] == made[::-1]
    for bad in ("nonsense", page.next_page_token):
        with pytest.raises(InvalidArgument) as refused:
            await stub.ListRuns(pb.ListRunsRequest(page_size=2, session_id="other", page_token=bad))
        assert refused.value.reason == "INVALID_PAGE_TOKEN"
    with pytest.raises(InvalidArgument):
        await stub.ListRuns(pb.ListRunsRequest(page_size=1001))
    await channel.close()


async def test_runs_are_found_by_text_and_time(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    word, session = uuid.uuid4().hex, f"Session-{uuid.uuid4().hex}"

    async def made(goal: str, **options: Any) -> str:
        return (await mesh.client.submit(goal, wait=10, **options)).run_id

    by_goal = await made(f"STRASSE {word}, straße: größer")
    by_metadata = await made("x", metadata={"ticket": f"A-{word}"}, session_id=session)
    by_length = await made(f"{word} {'x' * 100_000} beyond", session_id=session)

    async def found(text: str, **options: Any) -> list[str]:
        return [run.run_id for run in await mesh.client.list_runs(text=text, **options)]

    assert await found(word.upper()) == [by_length, by_metadata, by_goal]
    assert await found(f"Größer {word}") == [], "a text is found as a whole"
    assert by_goal in await found("STRASSE: GRÖSSER"), "without regard to case"
    assert await found(session.lower()[3:]) == [by_length, by_metadata]
    assert await found(by_goal[4:].lower()) == [by_goal]
    assert await found(word, session_id=session, limit=1) == [by_length]
    assert await found("beyond", session_id=session) == [], "beyond the beginning of a large goal"
    created = (await mesh.client.get(by_metadata)).create_time
    assert await found(word, since=created) == [by_length, by_metadata]
    assert await found(word, until=created) == [by_goal]
    assert await found("", until=created, since=created, session_id=session) == []
    monkeypatch.setattr(run_search, "MAX_SEARCHED", 1)
    monkeypatch.setattr(run_search, "_ROWS", 1)
    assert await found(word) == [by_length, by_metadata, by_goal], "one run per page"
    with pytest.raises(InvalidArgument):
        await found("x" * 201)


async def test_a_strategy_that_is_not_served_is_unimplemented(mesh: Mesh) -> None:
    channel = connect(mesh.orchestrator.address)
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
    with pytest.raises(Unimplemented) as refused:
        await stub.SubmitRun(
            pb.SubmitRunRequest(goal=[common_pb2.Part(text="x")], strategy=99),  # type: ignore[arg-type]
        )
    assert refused.value.reason == "NOT_SERVED"
    await channel.close()


async def test_an_unknown_run_is_not_found_in_every_call(mesh: Mesh) -> None:
    for call in (mesh.client.get("unknown"), mesh.client.cancel("unknown"), anext(mesh.client.watch("unknown"))):
        with pytest.raises(UnknownRun):
            await call


class Sleeper:
    """A handler that sleeps until it is stopped, and records when that was."""

    def __init__(self) -> None:
        self.stopped_at = 0.0

    async def __call__(self, task: object) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped_at = time.monotonic()
        return "slept"


async def test_a_cancel_stops_the_work_promptly(mesh: Mesh) -> None:
    sleeper = Sleeper()
    async with FakeAgent("sleeper", [sleeper], registry=mesh.registry.address) as agent:
        handle = await mesh.client.submit("sleep", roles=["sleeper"])

        async def begun() -> bool:
            return bool(agent.tasks)

        await eventually(begun)
        began = time.monotonic()
        await handle.cancel("enough")
        run = await handle.result(timeout=3)
        assert 0 < sleeper.stopped_at - began < STOPPED_WITHIN
        assert run.state == TaskState.CANCELED
        assert run.proto.failure.message == "enough"
        assert (await handle.cancel("again")).last_seq == run.last_seq


async def test_a_run_timeout_stops_the_work_promptly(mesh: Mesh) -> None:
    sleeper = Sleeper()
    async with FakeAgent("dawdler", ["awake", sleeper], registry=mesh.registry.address):
        await mesh.client.submit("be there", roles=["dawdler"], wait=10)
        began = time.monotonic()
        run = (await mesh.client.submit("sleep", roles=["dawdler"], timeout=1.0, wait=8)).run
    assert 0 < sleeper.stopped_at - began < 1.0 + STOPPED_WITHIN
    assert run.state == TaskState.FAILED
    assert run.proto.failure.code == 4


async def test_the_failure_of_an_agent_is_the_failure_of_its_run_typed(mesh: Mesh) -> None:
    broken = FailedPrecondition("no licence", reason="LICENCE", metadata={"which": "pro"})
    async with FakeAgent("broken", [broken], registry=mesh.registry.address):
        run = (await mesh.client.submit("x", roles=["broken"], wait=10)).run
    assert run.state == TaskState.FAILED
    assert run.proto.failure.message == "no licence"
    assert run.proto.failure.metadata["which"] == "pro"


async def test_a_role_that_starts_later_is_used_by_the_next_run(mesh: Mesh) -> None:
    async with FakeAgent("late", ["here I am"], registry=mesh.registry.address):
        assert answer_text((await mesh.client.submit("x", roles=["late"], wait=10)).run) == "here I am"


async def test_contract_rule_2_tasks_above_the_credit_wait_visibly(mesh: Mesh) -> None:
    running, most = 0, 0
    release = asyncio.Event()

    async def slow(task: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return "done"

    replies = [slow] * 5
    async with FakeAgent("narrow", replies, registry=mesh.registry.address, max_tasks=2) as agent:
        handles = [await mesh.client.submit(f"{n}", roles=["narrow"]) for n in range(5)]

        async def two() -> bool:
            return len(agent.tasks) == 2

        await eventually(two)
        waiting = [run.tasks[0].waiting_for for run in [await mesh.client.get(h.run_id) for h in handles]]
        assert sum("an instance of narrow" in text for text in waiting) == 3
        release.set()
        states = {(await handle.result(timeout=10)).state for handle in handles}
    assert states == {TaskState.COMPLETED}
    assert most == 2


async def test_two_replicas_share_the_work(mesh: Mesh) -> None:
    at_work, release = 0, asyncio.Event()

    async def slow(task: object) -> str:
        nonlocal at_work
        at_work += 1
        if at_work == 4:
            release.set()
        await release.wait()
        return "done"

    target = mesh.registry.address
    async with (
        FakeAgent("twin", [slow] * 2, registry=target, max_tasks=2) as first,
        FakeAgent("twin", [slow] * 2, registry=target, max_tasks=2) as second,
    ):
        await until(lambda: bool(first.server._sessions and second.server._sessions))
        await asyncio.gather(*(mesh.client.submit("x", roles=["twin"], wait=10) for _ in range(4)))
        assert len(first.tasks) == len(second.tasks) == 2


async def test_clients_of_one_process_are_independent(mesh: Mesh) -> None:
    async with Client(mesh.orchestrator.address) as second:
        run = (await mesh.client.submit("x", wait=10)).run
        assert (await second.get(run.run_id)).last_seq == run.last_seq


async def test_a_task_goes_to_an_instance_with_capability_and_version(mesh: Mesh) -> None:
    target = mesh.registry.address
    drawing = [Capability("draw")]
    async with (
        FakeAgent("artist", [], registry=target) as plain,
        FakeAgent("artist", ["drawn", "drawn by 0.1"], registry=target, capabilities=drawing) as able,
    ):

        async def both() -> bool:
            return len(await mesh.directory.list_instances("artist")) == 2

        await eventually(both)
        assert answer_text((await mesh.client.submit("x", capabilities=["draw"], wait=10)).run) == "drawn"
        versions = {"artist": "0.1.*"}
        plain.then("plainly drawn")
        run = (await mesh.client.submit("x", roles=["artist"], versions=versions, wait=10)).run
        assert answer_text(run) in ("drawn by 0.1", "plainly drawn")
        (plain if plain.unused else able)._replies.clear()
        handle = await mesh.client.submit("x", roles=["artist"], versions={"artist": "9.*"})

        async def waits() -> bool:
            return "an instance of artist 9.*" in (await mesh.client.get(handle.run_id)).tasks[0].waiting_for

        await eventually(waits)
        await handle.cancel()
    with pytest.raises(InvalidArgument) as refused:
        await mesh.client.submit("x", roles=["designer", "requirements"], versions={"implementer": "1.*"})
    assert refused.value.field_violations[0].field == "versions"


async def test_a_role_with_all_ancestors_receives_their_answers(mesh: Mesh) -> None:
    def context_roles(task: TaskContext) -> str:
        return ", ".join(item.role for item in task.context)

    settings = AgentSettings(registry=mesh.registry.address)
    async with (
        AgentServer("critic", depends_on=["implementer"], handler=context_roles, settings=settings),
        AgentServer("judge", depends_on=["critic"], all_ancestors=True, handler=context_roles, settings=settings),
    ):
        roles = ["requirements", "designer", "implementer", "critic", "judge"]
        run = (await mesh.client.submit("x", roles=roles, wait=10)).run
    assert answer_text(run) == "requirements, designer, implementer, critic"
