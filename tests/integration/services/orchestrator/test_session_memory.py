"""The session's shared memory that a run recalls: on real processes, and while the memory service is down or frozen."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator

import pytest
from google.rpc import code_pb2

from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import MessageTooLarge
from archon.memory import MemoryGraphClient, PropagationPolicy
from archon.registry import DependsOn
from archon.testing import FakeAgent
from archon_mesh.node.task_hooks import to_memory_item
from tests.fixtures.memory_mesh import published
from tests.fixtures.mesh import Mesh, ProcessMesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


@pytest.fixture
def session() -> str:
    return uuid.uuid4().hex


@pytest.fixture
async def memory(mesh: Mesh, session: str) -> AsyncIterator[MemoryGraphClient]:
    async with MemoryGraphClient(mesh.memory.address, session) as memory:
        yield memory


async def answered(mesh: Mesh, session: str, *roles: str) -> str:
    return answer_text((await mesh.client.submit("x", roles=list(roles), session_id=session, wait=10)).run)


async def test_durability_16_a_run_recalls_earlier_runs_of_its_session(mesh: Mesh, session: str) -> None:
    assert await answered(mesh, session, "implementer") == "implementer()"
    for _ in range(10):
        assert await answered(mesh, session, "requirements") == "requirements()"
        assert await answered(mesh, session, "designer") == "designer(requirements())"
        session = uuid.uuid4().hex


async def test_recalled_items_are_replaced_by_the_runs_own_answers(
    mesh: Mesh, memory: MemoryGraphClient, session: str
) -> None:
    await memory.publish("designer", "old design")
    await memory.publish("requirements", "old needs")
    await memory.publish("implementer", "own answers are not received")
    assert await answered(mesh, session, "implementer") == "implementer(old needs, old design)"
    assert await answered(mesh, session, "designer", "implementer") == "implementer(old needs, designer(old needs))"
    whole = await answered(mesh, session, "requirements", "designer", "implementer")
    assert whole == "implementer(requirements(), designer(requirements()))"


async def test_policy_of_context_is_that_of_the_item_not_of_the_edge(
    mesh: Mesh, troupe: Troupe, memory: MemoryGraphClient, session: str
) -> None:
    received: list[list[tuple[str, str, str]]] = []

    async def handler(task: TaskContext) -> str:
        items = [to_memory_item(item) for item in task.context]
        received.append([(item.source_id, item.content, item.policy) for item in items])
        return "done"

    role = f"reader-{uuid.uuid4().hex[:6]}"
    edges = [DependsOn(upstream, PropagationPolicy.FULL_HISTORY) for upstream in ("requirements", "designer")]
    await troupe(role, handler, depends_on=edges)
    await memory.publish("requirements", "results", policy=PropagationPolicy.TOOL_RESULTS)
    await answered(mesh, session, "designer", role)
    assert received == [
        [("requirements", "results", "tool_results"), ("designer", "designer()", "final_response_only")]
    ]


async def test_a_run_without_a_session_recalls_nothing(mesh: Mesh) -> None:
    await mesh.client.submit("x", roles=["requirements"], wait=10)
    assert answer_text((await mesh.client.submit("x", roles=["designer"], wait=10)).run) == "designer()"


async def test_durability_16_a_later_attempt_receives_the_same_context(
    mesh: Mesh, troupe: Troupe, memory: MemoryGraphClient, session: str
) -> None:
    contexts: list[list[tuple[str, int, str]]] = []
    began = asyncio.Event()

    async def handler(task: TaskContext) -> str:
        contexts.append([(item.role, item.version, item.text) for item in task.context])
        began.set()
        if len(contexts) == 1:
            await asyncio.Event().wait()
        return "done"

    first = await troupe("reviewer", handler, depends_on=["designer"])
    version = await published(memory, "designer", "the first")
    handle = await mesh.client.submit("x", roles=["reviewer"], session_id=session)
    await asyncio.wait_for(began.wait(), 10)
    await memory.publish("designer", "the second")
    await first.stop(0.0)
    await troupe("reviewer", handler, depends_on=["designer"])
    events = await durable(handle)
    assert contexts == [[("designer", version, "the first")]] * 2
    for event in of(events, "dispatched"):
        (ref,) = event.dispatched.given
        assert (ref.scope, ref.role, ref.version, ref.seq) == (session, "designer", version, 0)
    assert "reviewer" in of(events, "submitted")[0].submitted.session_context[0].readers


async def test_an_answer_of_3_mib_reaches_the_shared_memory_whole(mesh: Mesh, session: str) -> None:
    role = f"verbose-{uuid.uuid4().hex[:6]}"
    answer = "é" * (3 * 1024 * 1024 // 2)
    await mesh.directory.pin_edges([(role, "reader-of-much")])
    async with FakeAgent(role, [answer], registry=mesh.registry.address) as agent:
        await mesh.seen(agent.address)
        run = (await mesh.client.submit("x", roles=[role], session_id=session, wait=10)).run
        assert answer_text(run) == answer
    async with MemoryGraphClient(mesh.memory.address, session) as memory:

        async def published() -> bool:
            return bool(await memory.pull_for("reader-of-much"))

        await eventually(published)
        assert [item.content for item in await memory.pull_for("reader-of-much")] == [answer]
    await mesh.directory.unpin_edges([(role, "reader-of-much")])


async def test_a_delegated_role_receives_recalled_upstream_items(
    mesh: Mesh, troupe: Troupe, memory: MemoryGraphClient, session: str
) -> None:
    async def lead(task: TaskContext) -> str:
        return (await task.delegate("x", role="designer")).text

    await troupe("lead", lead, coordinator=True)
    await memory.publish("requirements", "old needs")
    handle = await mesh.client.submit("x", roles=["lead"], strategy="agent", session_id=session, wait=10)
    assert answer_text(handle.run) == "designer(old needs)"


async def test_a_submit_to_a_session_with_too_many_items_is_refused(
    mesh: Mesh, troupe: Troupe, memory: MemoryGraphClient, session: str
) -> None:
    async def handler(task: TaskContext) -> str:
        return "done"

    roles = [f"talker-{number}" for number in range(5)]
    await troupe("listener", handler, depends_on=roles)
    for role in roles:
        await memory.publish(role, "x" * 1_000_000)

    async def followed() -> bool:
        return len(await memory.pull_for("listener")) == 5

    await eventually(followed)
    with pytest.raises(MessageTooLarge, match=f"session {session} is too large for one run"):
        await mesh.client.submit("x", roles=["listener"], session_id=session)
    await memory.clear_published_data()
    assert (await mesh.client.submit("x", roles=["listener"], session_id=session, wait=10)).run.answers


async def test_durability_16_a_failed_recall_stops_no_run(process_mesh: ProcessMesh) -> None:
    mesh = process_mesh
    await mesh.agent("requirements")
    await mesh.agent("designer", "requirements")
    assert await answered(mesh, "s", "requirements") == "requirements()"
    assert await answered(mesh, "s", "designer") == "designer(requirements())"
    mesh.memory.send(signal.SIGSTOP)
    began = time.monotonic()
    handle = await mesh.client.submit("x", roles=["designer"], session_id="s", wait=10)
    assert (answer_text(handle.run), time.monotonic() - began < 5) == ("designer()", True)
    assert (
        of(await durable(handle), "submitted")[0].submitted.session_context_failure.code == code_pb2.DEADLINE_EXCEEDED
    )
    await mesh.memory.kill()
    handle = await mesh.client.submit("x", roles=["designer"], session_id="s", wait=10)
    assert answer_text(handle.run) == "designer()"
    assert of(await durable(handle), "submitted")[0].submitted.session_context_failure.code == code_pb2.UNAVAILABLE
    await mesh.memory.start()

    async def back() -> bool:
        return await answered(mesh, "s", "designer") == "designer(requirements())"

    await eventually(back, 15.0)


async def test_durability_16_after_a_restart_context_is_journaled(
    own_mesh: Mesh,
) -> None:
    mesh = own_mesh
    await mesh.agent("requirements")
    designer = await mesh.agent_process("designer", "requirements", delay=60.0)
    assert await answered(mesh, "s", "requirements") == "requirements()"
    handle = await mesh.client.submit("x", roles=["designer"], session_id="s")

    async def at_work() -> bool:
        return ("designer", 1) in mesh.executions("begin")

    await eventually(at_work)
    for process in (mesh.orchestrator, mesh.memory, designer):
        await process.kill()
    await mesh.orchestrator.start()
    await mesh.agent("designer", "requirements")
    assert answer_text(await handle.result(timeout=20)) == "designer(requirements())"
