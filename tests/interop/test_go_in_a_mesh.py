"""A designer in Go in place of the Python designer: in runs, when processes die, and on SIGTERM."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archon.client import Client, RunHandle, answer_text
from archon.memory import MemoryGraphClient
from archon.registry import RegistryClient
from archon.types import Run, RunTask, TaskState
from archon_services.testing.mesh import LocalMesh
from tests.fixtures.waiting import eventually
from tests.interop.go_agent import GoAgent, StartGo, registered

pytestmark = pytest.mark.slow

GOAL = "Readers must be able to reserve a book. The clerk must see overdue books."
DELAY = "dev.archon.interop/delay"
FIRST_DELAY = "dev.archon.interop/first-delay"
PYTHON = "designer-1"

NOTICED_WITHIN = 3.0
BUSY_MACHINE = 3.0
"""Seconds by which a busy machine may delay what the contract bounds."""


@pytest.fixture(scope="module")
def mesh(go_program: Path) -> Iterator[LocalMesh]:
    """A mesh whose Python designer is paused; tests start the designer in Go."""
    with LocalMesh() as mesh:
        mesh.pause(PYTHON)
        yield mesh


@pytest.fixture
async def designer(mesh: LocalMesh, start_go: StartGo) -> GoAgent:
    """The only designer of the mesh."""
    agent = await start_go(mesh.registry, ARCHON_TOKEN=mesh.token("designer"))
    await registered(mesh, agent.address)
    return agent


@pytest.fixture
def python_paused_after(mesh: LocalMesh) -> Iterator[None]:
    """Pauses the Python designer again after a test that resumes it."""
    yield
    mesh.pause(PYTHON)


async def submit(client: Client, delay: float = 0.0, session_id: str = "") -> RunHandle:
    return await client.submit(GOAL, metadata={DELAY: f"{delay}s"}, session_id=session_id)


def designing(run: Run) -> RunTask:
    return next(task for task in run.tasks if task.role == "designer")


async def dispatches(client: Client, run_id: str) -> list[str]:
    """Returns the instances to which the designer's task was dispatched, in order."""
    events = [event async for event in client.watch(run_id)]
    return [event.proto.dispatched.instance_id for event in events if event.proto.dispatched.role == "designer"]


@pytest.mark.liveness
async def test_a_run_uses_the_answer_of_the_designer_in_go(mesh: LocalMesh, client: Client, designer: GoAgent) -> None:
    handle = await submit(client, session_id="go")
    run = await handle.result(timeout=15)
    assert run.state == TaskState.COMPLETED, run.failure
    assert designing(run).instance_id.startswith("designer-go-")
    assert "GoComponentR1 — covers R1" in answer_text(run) and "GoComponentR2 — covers R2" in answer_text(run)
    assert designing(run).usage.model_calls == 1

    (record,) = [record async for record in client.records(run.run_id, role="designer")]
    request = json.loads(record.request_json)
    assert (record.target, record.task.attempt, request["goal"]) == ("go-rules", 1, GOAL)
    assert "R1. Readers must be able to reserve a book." in request["requirements"]
    assert json.loads(record.response_json).startswith("C1. GoComponentR1 — covers R1")

    async with MemoryGraphClient(mesh.memory, "go", credentials=mesh.credentials) as memory:

        async def published() -> bool:
            items = await memory.pull_for("implementer")
            return any("GoComponentR1" in item.content for item in items)

        await eventually(published)


@pytest.mark.liveness
async def test_deltas_of_the_designer_precede_its_result(client: Client, designer: GoAgent) -> None:
    # Deltas are not repeated: the watch has to begin before them.
    handle = await client.submit(GOAL, metadata={FIRST_DELAY: "1s"})
    deltas, result = [], False
    async for event in handle.events():
        if event.proto.text_delta.role == "designer":
            assert not result, "a delta came after the result"
            deltas.append(event.proto.text_delta)
        result = result or event.proto.result.role == "designer"
    text = "".join(delta.text for delta in deltas)
    assert text.startswith("C1. GoComponentR1") and result
    assert [delta.offset for delta in deltas] == [0, len(deltas[0].text.encode())]


@pytest.mark.liveness
async def test_contract_rule_5_a_restarted_orchestrator_adopts_a_task(
    mesh: LocalMesh, client: Client, designer: GoAgent
) -> None:
    handle = await submit(client, delay=6.0)
    (begun,) = await designer.until_logged("begin", within=10.0)
    killed = mesh.kill("orchestrator")
    mesh.wait("orchestrator", not_pid=killed)
    assert begun in (await designer.until_logged("adopted"))[0]
    assert not designer.logged("end"), "the task was not adopted before its end"
    run = await handle.result(timeout=15)
    assert run.state == TaskState.COMPLETED
    assert designing(run).attempt == 1
    assert designer.logged("begin") == [begun]


@pytest.mark.liveness
async def test_contract_rule_5_a_result_in_an_outage_is_parked(
    mesh: LocalMesh, client: Client, designer: GoAgent
) -> None:
    handle = await submit(client, delay=0.4)
    await designer.until_logged("begin", within=10.0)
    mesh.pause("orchestrator")
    await designer.until_logged("end")
    mesh.resume("orchestrator")
    run = await handle.result(timeout=15)
    assert run.state == TaskState.COMPLETED
    assert (designing(run).attempt, len(designer.logged("begin"))) == (1, 1)


@pytest.mark.liveness
async def test_contract_rule_3_its_death_is_noticed_in_time(
    mesh: LocalMesh, client: Client, designer: GoAgent, python_paused_after: None
) -> None:
    handle = await submit(client, delay=30.0)
    await designer.until_logged("begin", within=10.0)
    mesh.resume(PYTHON)
    killed = time.monotonic()
    designer.send(signal.SIGKILL)
    async for event in handle.events():
        if event.proto.dispatched.role == "designer" and event.proto.task.attempt == 2:
            break
    assert time.monotonic() - killed < NOTICED_WITHIN + BUSY_MACHINE
    run = await handle.result(timeout=15)
    assert run.state == TaskState.COMPLETED
    assert "GoComponent" not in answer_text(run)
    first, second = await dispatches(client, run.run_id)
    assert first.startswith("designer-go-") and not second.startswith("designer-go-")


@pytest.mark.liveness
async def test_a_cancel_stops_it_in_the_middle_of_a_task(client: Client, designer: GoAgent) -> None:
    handle = await submit(client, delay=30.0)
    (begun,) = await designer.until_logged("begin", within=10.0)
    await handle.cancel()
    assert await designer.until_logged("end") == [f"{begun} TASK_STATE_CANCELED"]
    assert (await handle.result(timeout=5)).state == TaskState.CANCELED


@pytest.mark.liveness
async def test_sigterm_finishes_running_tasks_and_takes_no_new_ones(
    mesh: LocalMesh, client: Client, designer: GoAgent
) -> None:
    handle = await submit(client, delay=2.5)
    await designer.until_logged("begin", within=10.0)
    designer.send(signal.SIGTERM)
    assert await designer.exit_code() == 0
    run = await handle.result(timeout=10)
    assert (run.state, designing(run).attempt) == (TaskState.COMPLETED, 1)
    assert "GoComponentR1" in answer_text(run)
    assert "drained" in designer.log
    async with RegistryClient(mesh.registry, credentials=mesh.credentials) as registry:
        assert designer.address not in [instance.address for instance in await registry.list_instances()]
