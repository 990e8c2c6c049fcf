"""`archon restart`, `archon scale`, and `archon down` in the middle of a run, on a mesh in the background."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from archon.client import Client
from archon.errors import FailedPrecondition, InvalidArgument
from archon.registry import RegistryClient
from archon.types import TaskState
from archon_services.local_mesh import Home, MeshOptions, StartFailed, Supervisor, make_plan, send_command
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.openai_server import Answer, OpenAIServer, completion
from tests.fixtures.waiting import until


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    deep = tmp_path / ("a-folder-with-a-long-name-" * 4)
    deep.mkdir()
    terminal = Terminal(deep / "home")
    try:
        yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


def instances(terminal: Terminal) -> dict[str, int]:
    """Returns the ids of the healthy agents by name."""
    return {
        process.name: process.pid
        for process in terminal.state().processes
        if process.kind == "agent" and process.condition == "healthy"
    }


async def registered(terminal: Terminal) -> list[str]:
    async with RegistryClient(terminal.state().registry, credentials=terminal.credentials) as client:
        return sorted(instance.role for instance in await client.list_instances())


@pytest.mark.slow
async def test_restart_and_scale_change_processes_and_registrations(terminal: Terminal) -> None:
    assert terminal.archon("up", "--only", "registry,designer,requirements", "--detach").code == 0
    before = instances(terminal)
    restarted = terminal.archon("restart", "designer")
    assert (restarted.code, restarted.out) == (0, "Restarted 1 instance of designer.\n"), restarted.err
    assert restarted.err == "restarting designer-1\n"
    assert terminal.state().process("designer-1").restarts == 0, "only exits count"
    after = instances(terminal)
    assert (after["designer-1"] != before["designer-1"], after["requirements-1"]) == (True, before["requirements-1"])

    scaled = terminal.archon("scale", "designer=3", "requirements=0")
    assert scaled.out == "The mesh has 3 instances of designer, 0 instances of requirements.\n", scaled.err
    assert set(instances(terminal)) == {"designer-1", "designer-2", "designer-3"}
    assert instances(terminal)["designer-1"] == after["designer-1"]
    assert await registered(terminal) == ["designer"] * 3
    assert "designer-3" in terminal.archon("status").out
    assert terminal.archon("logs", "designer-3").code == 0

    assert terminal.archon("scale", "designer=1").err == "stopping designer-2\nstopping designer-3\n"
    assert set(instances(terminal)) == {"designer-1"}
    assert await registered(terminal) == ["designer"]
    assert terminal.archon("restart", "designer").code == 0
    assert terminal.archon("scale", "designer=2").code == 0
    assert set(instances(terminal)) == {"designer-1", "designer-2"}


def test_commands_to_a_mesh_are_for_its_owner_and_refused_typed(terminal: Terminal) -> None:
    absent = terminal.archon("restart", "designer")
    assert (absent.code, absent.error_lines[0].startswith("error: no mesh is running in ")) == (3, True)
    assert terminal.archon("up", "--only", "registry,designer", "--detach").code == 0
    assert stat.S_IMODE(Home(terminal.home).control_socket.stat().st_mode) == 0o600
    unknown = terminal.archon("restart", "desinger")
    assert (unknown.code, unknown.error_lines[0]) == (4, "error: unknown role 'desinger': this mesh runs designer")
    unknown = terminal.archon("scale", "desinger=2")
    assert unknown.code == 4
    assert "expected one of requirements, designer, implementer, coordinator" in unknown.error_lines[0]
    for invalid in ("designer=33", "designer", "designer=-1", "=1"):
        assert terminal.archon("scale", invalid).code == 2
    before = instances(terminal)
    assert set(before) == {"designer-1"}
    restarted = terminal.archon("restart", "designer")
    assert restarted.out == "Restarted 1 instance of designer.\n", restarted.err
    assert instances(terminal).keys() == before.keys()
    assert instances(terminal) != before
    assert terminal.archon("scale", "designer=0").err == "stopping designer-1\n"
    assert instances(terminal) == {}
    assert terminal.archon("down").code == 0
    assert not Home(terminal.home).control_socket.exists()
    assert terminal.archon("scale", "designer=2").code == 3


@pytest.mark.slow
async def test_an_instance_that_cannot_start_is_removed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.hold():
        plan = make_plan(home, MeshOptions(only=("registry", "designer"), free_ports=True))
        broken = {**plan.roles["designer"], "ARCHON_MAX_TASKS": "many"}
        async with Supervisor(home, replace(plan, roles={**plan.roles, "designer": broken})) as supervisor:
            await supervisor.start()
            steps: list[str] = []
            scaling = asyncio.create_task(send_command(home, {"scale": {"designer": 2}}, steps.append))
            await until(lambda: bool(steps))
            with pytest.raises(FailedPrecondition, match="another command"):
                await send_command(home, {"restart": ["designer"]}, steps.append)
            with pytest.raises(StartFailed, match=r"designer-2 cannot start: .*exited with code 2"):
                await scaling
            assert steps == ["starting designer-2"]
            for command in ({"explode": 1}, {"restart": "designer"}, {"scale": {"designer": "many"}}, {}):
                with pytest.raises(InvalidArgument):
                    await send_command(home, command, steps.append)
            names = [process.name for process in supervisor.state().processes]
            assert names == ["etcd", "registry", "designer-1"]


@pytest.mark.slow
async def test_a_run_continues_over_a_restart_and_over_down_and_up(terminal: Terminal) -> None:
    up = ("up", "--only", "registry,memory,orchestrator,requirements", "--model", "openai/served-model", "--detach")
    async with OpenAIServer() as model:
        model.script(*[Answer(completion({"content": "too late"}), delay=PATIENCE)] * 2)
        terminal.environment |= {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k", "ARCHON_DRAIN": "0.1"}
        started = await run_in_thread(terminal, *up)
        assert started.code == 0, started.err
        async with Client(terminal.state().address("orchestrator"), credentials=terminal.credentials) as client:
            handle = await client.submit("It must be blue.", roles=["requirements"])
            await until(lambda: len(model.received) == 1, PATIENCE)
            restarted = await run_in_thread(terminal, "restart", "requirements")
            assert restarted.code == 0, restarted.err
            await until(lambda: len(model.received) == 2, PATIENCE)
        down = await run_in_thread(terminal, "down")
        assert down.out.splitlines()[1:] == [f"1 run continues at the next `archon up`: {handle.run_id[:12]}"]
        assert (await run_in_thread(terminal, *up)).code == 0
        async with Client(terminal.state().address("orchestrator"), credentials=terminal.credentials) as client:
            events = [event async for event in client.watch(handle.run_id, durable_only=True)]
            run = await client.get(handle.run_id)
        assert run.state == TaskState.COMPLETED
        assert [task.attempt for task in run.tasks] == [3]
        kinds = [event.type for event in events]
        assert (kinds.count("dispatched"), kinds.count("lost")) == (3, 0), kinds
        idle = await run_in_thread(terminal, "down")
        assert idle.out.count("\n") == 1, "no run was in progress"


async def run_in_thread(terminal: Terminal, *arguments: str) -> Result:
    """Runs a command while this event loop serves."""
    return await asyncio.to_thread(terminal.archon, *arguments)
