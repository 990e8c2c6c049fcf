"""`archon serve --mesh`: a role whose tasks are runs of another mesh, served by a process that may be killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from archon.client import RunHandle, answer_text
from archon.federation import PARENT_RUN_KEY
from archon.types import Run
from archon_services.testing import EtcdProcess
from tests.e2e.terminal import COMMAND, PATIENCE, Process, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.mesh import Mesh, ProcessMesh
from tests.fixtures.variants import one_in
from tests.fixtures.waiting import eventually, until


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "home", XDG_CONFIG_HOME=str(tmp_path / "config"), ARCHON_TTL="2")


@pytest.fixture(scope="module")
async def meshes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Mesh, Mesh]]:
    """Two meshes in the test's loop; the second one has the agents researcher and writer."""
    near, far = Mesh(tmp_path_factory.mktemp("near")), Mesh(tmp_path_factory.mktemp("far"))
    async with AsyncExitStack() as stack:
        for mesh in (near, far):
            stack.push_async_callback(mesh.stop)
            await mesh.start()
        await far.agent("researcher")
        await far.agent("writer", "researcher")
        yield near, far


def set_context(terminal: Terminal, name: str, mesh: Mesh) -> None:
    """Makes a context for a mesh."""
    addresses = ["--orchestrator", mesh.orchestrator.address, "--registry", mesh.registry.address]
    done = terminal.archon("context", "set", name, *addresses)
    assert done.code == 0, done.err


class Gateway:
    """A process of `archon serve --mesh far`."""

    def __init__(self, terminal: Terminal, near: Mesh, *options: str) -> None:
        self._terminal = terminal
        self._near = near
        self._command = ["serve", "--mesh", "far", *options, "--registry", near.registry.address]
        self.log = terminal.home.parent / "gateway.log"
        self.process: Process | None = None

    async def start(self, role: str) -> None:
        """Starts it, and waits until a new instance of its role is registered."""
        before = {each.instance_id for each in await self._near.directory.list_instances(role)}
        process = self.process = fork_server.fork(COMMAND, self._command, self._terminal.environment, self.log)

        async def registered() -> bool:
            assert process.poll() is None, self.log.read_text()[-3000:]
            return any(each.instance_id not in before for each in await self._near.directory.list_instances(role))

        await eventually(registered, PATIENCE)

    async def kill(self) -> None:
        """Kills it, as a crash does."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Drains it; returns the exit code."""
        return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, PATIENCE)


@asynccontextmanager
async def serving(terminal: Terminal, near: Mesh, role: str, *options: str) -> AsyncIterator[Gateway]:
    """Serves a gateway during the block; it must drain at its end."""
    gateway = Gateway(terminal, near, *options)
    await gateway.start(role)
    try:
        yield gateway
    finally:
        assert await gateway.stop() == 0, gateway.log.read_text()[-3000:]


async def children_of(far: Mesh, handle: RunHandle) -> list[Run]:
    """Returns the runs of the other mesh that are tasks of a run."""
    runs = [await far.client.get(run.run_id) for run in await far.client.list_runs()]
    return [run for run in runs if run.metadata.get(PARENT_RUN_KEY) == handle.run_id]


async def test_a_mesh_is_served_as_a_role(meshes: tuple[Mesh, Mesh], terminal: Terminal) -> None:
    near, far = meshes
    set_context(terminal, "far", far)
    async with serving(terminal, near, "library", "--name", "library", "--strategy", "pipeline") as gateway:
        (instance,) = await near.directory.list_instances("library")
        assert instance.description == (
            "Hands a task to the mesh far, which has agents of its own. "
            "Its roles are researcher: echoes as researcher; writer: echoes as writer"
        )
        run = (await near.client.submit("x", roles=["library"], wait=20)).run
        assert answer_text(run) == "writer(researcher())", gateway.log.read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--mesh", "nowhere"], "unknown context 'nowhere'"),
        (["--mesh", "far", "agent.yaml"], "--mesh takes neither a FILE nor --a2a, --model, --reload or --attach"),
        (["--mesh", "near"], "the context near is this mesh itself"),
        (["--mesh", "far", "--strategy", "best"], "unknown strategy 'best'"),
        (["--mesh", "far", "--name", "No Name"], "invalid"),
        (["--name", "x", "agent.yaml"], "need --mesh"),
        (["--role", "writer", "--role", "coder"], "one --role at a time"),
        (["--mesh", "empty"], "the context empty has no address of the orchestrator"),
    ],
)
def test_wrong_options_end_with_a_sentence(
    meshes: tuple[Mesh, Mesh], terminal: Terminal, arguments: list[str], error: str
) -> None:
    near, far = meshes
    for name, mesh in (("near", near), ("far", far)):
        set_context(terminal, name, mesh)
    assert terminal.archon("context", "set", "empty", "--memory", "127.0.0.1:1").code == 0
    done = terminal.archon("serve", *arguments, "--registry", near.registry.address)
    assert done.code == 2
    assert error in done.err


@pytest.mark.slow
async def test_a_gateway_serves_before_the_other_mesh_does(meshes: tuple[Mesh, Mesh], terminal: Terminal) -> None:
    near, _ = meshes
    done = await asyncio.to_thread(terminal.archon, "context", "set", "far", "--home", str(terminal.home / "other"))
    assert done.code == 0, done.err
    async with serving(terminal, near, "early", "--name", "early"):
        handle = await near.client.submit("x", roles=["early"])
        await near.client.cancel(handle.run_id)
        assert (await handle.result(20)).state.final


@pytest.mark.slow
@pytest.mark.liveness
@pytest.mark.parametrize("victim", one_in(3, ["gateway", "other orchestrator", "this orchestrator"]))
async def test_a_kill_in_the_middle_executes_the_run_once(
    etcd: EtcdProcess, tmp_path: Path, terminal: Terminal, victim: str
) -> None:
    near, far = ProcessMesh(tmp_path / "near", etcd.address), ProcessMesh(tmp_path / "far", etcd.address)
    async with AsyncExitStack() as stack:
        for mesh in (near, far):
            mesh.home.mkdir()
            stack.push_async_callback(mesh.stop)
            await mesh.start(ARCHON_LEASE="1")
        await far.agent_process("worker", delay=3.0)
        await asyncio.to_thread(set_context, terminal, "far", far)
        gateway = Gateway(terminal, near, "--name", "team", "--role", "worker")
        await gateway.start("team")
        stack.push_async_callback(gateway.stop)
        handle = await near.client.submit("x", roles=["team"])
        await until(lambda: far.executions("begin") != [])
        if victim == "gateway":
            await gateway.kill()
            await gateway.start("team")
        else:
            orchestrator = far.orchestrator if victim == "other orchestrator" else near.orchestrator
            await orchestrator.kill()
            await orchestrator.start()
        run = await handle.result(60)
        assert answer_text(run) == "worker()", gateway.log.read_text()[-3000:]
        assert far.executions("begin") == far.executions("end") == [("worker", 1)]
        assert len(await children_of(far, handle)) == 1
        assert run.tasks[0].attempt == (2 if victim == "gateway" else 1)


@pytest.mark.search
@pytest.mark.liveness
async def test_a_run_cancelled_without_a_gateway_is_no_orphan_for_long(
    etcd: EtcdProcess, tmp_path: Path, terminal: Terminal
) -> None:
    """The gateway is killed, the run is cancelled, and the next gateway finds what is left of it."""
    near, far = ProcessMesh(tmp_path / "near", etcd.address), ProcessMesh(tmp_path / "far", etcd.address)
    async with AsyncExitStack() as stack:
        for mesh in (near, far):
            mesh.home.mkdir()
            stack.push_async_callback(mesh.stop)
            await mesh.start()
        await far.agent_process("worker", delay=300.0)
        await asyncio.to_thread(set_context, terminal, "far", far)
        terminal.environment |= {"ARCHON_ORCHESTRATOR": near.orchestrator.address, "ARCHON_MESH": "near-id"}
        gateway = Gateway(terminal, near, "--name", "team", "--role", "worker")
        await gateway.start("team")
        stack.push_async_callback(gateway.stop)
        handle = await near.client.submit("x", roles=["team"])
        await until(lambda: far.executions("begin") != [])
        await gateway.kill()
        await near.client.cancel(handle.run_id)
        await handle.result(30)
        (child,) = await children_of(far, handle)
        assert not child.state.final
        await gateway.start("team")

        async def cancelled() -> bool:
            return (await far.client.get(child.run_id)).state.final

        await eventually(cancelled, 60.0, 0.5)
