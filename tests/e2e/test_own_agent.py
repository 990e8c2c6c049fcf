"""An agent in a YAML file: created, chatted with, served and called, with the same events each time."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, chdir
from pathlib import Path

import pytest

from archon.client import answer_text
from archon_mesh.agent import Agent, AgentEvent
from archon_mesh.core.messages import ToolCall
from archon_mesh.declared import load_agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import RemoteAgent
from archon_services.testing import EtcdProcess
from tests.e2e.terminal import COMMAND, PATIENCE, Process, Result, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.mesh import Mesh
from tests.fixtures.scripted_model import says
from tests.fixtures.waiting import eventually, until

ARCHON = [str(Path(sys.executable).parent / "archon")]


def new_agent(folder: Path, name: str, *options: str) -> Result:
    """Runs `archon new agent` in a folder."""
    with chdir(folder):
        return Terminal(folder / "home").archon("new", "agent", name, *options)


def chat(agent: str, folder: Path, *options: str, stdin: str, **environment: str) -> Result:
    """Chats with a role, or with a file in a process that imports its tools."""
    return Terminal(folder / "home", **environment).fork("chat", agent, *options, stdin=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that `archon new agent` writes."""
    done = new_agent(tmp_path, "helper")
    assert done.code == 0, done.err
    return tmp_path / "helper.yaml"


@pytest.fixture(scope="module")
async def mesh(etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mesh]:
    """Shared by this module: the agents of a test have a name of their own."""
    mesh = Mesh(tmp_path_factory.mktemp("mesh"))
    await mesh.start()
    yield mesh
    await mesh.stop()


@pytest.fixture(scope="module")
def served_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    assert new_agent(folder, "waiter").code == 0
    return folder / "waiter.yaml"


@pytest.fixture(scope="module")
async def served(mesh: Mesh, served_file: Path) -> AsyncIterator[Mesh]:
    """The mesh with the file as the role waiter, served by `archon serve`."""
    command = ["serve", str(served_file), "--registry", mesh.registry.address]
    folder = served_file.parent
    process = fork_server.fork(COMMAND, command, Terminal(folder / "home").environment, folder / "log.txt")
    await eventually(lambda: is_served(mesh, process, "waiter"), PATIENCE)
    yield mesh
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0


async def is_served(mesh: Mesh, process: Process, role: str) -> bool:
    assert process.poll() is None
    return any(instance.role == role for instance in await mesh.directory.list_instances())


def test_new_agent_runs_and_is_not_overwritten(file: Path) -> None:
    folder = file.parent
    checked = Terminal(folder / "home").archon("serve", str(file), "--check")
    assert checked.out.strip().endswith("with 1 tool (time_of_day)."), checked.err
    done = chat(str(file), folder, stdin="What time is it?\n\n")
    assert done.code == 0, done.err
    assert "It is " in done.out
    assert "[time_of_day]" in done.err
    again = new_agent(folder, "helper")
    assert (again.code, "already exist" in again.err) == (2, True)
    assert new_agent(folder, "no good").code == 2
    schema = json.loads((folder / "helper.schema.json").read_text())
    assert schema["title"] == "An agent of Archon"


@asynccontextmanager
async def serving(mesh: Mesh, folder: Path, *command: str) -> AsyncIterator[subprocess.Popen[str]]:
    """Runs a command that serves an agent in the mesh during the block; it must drain at its end."""
    environment = {**Terminal(folder / "home").environment, "ARCHON_REGISTRY": mesh.registry.address}
    with (
        (folder / "log.txt").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stderr=log, text=True) as process,
    ):
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, PATIENCE) == 0
        finally:
            process.kill()


@pytest.fixture
def python_agent(tmp_path: Path, name: str) -> Path:
    """The file that `archon new agent --python` writes."""
    assert new_agent(tmp_path, name, "--python").out.startswith(f"Wrote {name}.py.")
    return tmp_path / f"{name}.py"


@pytest.mark.parametrize(
    ("command", "name"),
    [((sys.executable,), "cook"), pytest.param((*ARCHON, "serve"), "baker", marks=pytest.mark.slow)],
)
async def test_new_python_agent_serves_its_tool(
    mesh: Mesh, python_agent: Path, command: Sequence[str], name: str
) -> None:
    async with serving(mesh, python_agent.parent, *command, python_agent.name) as process:
        await eventually(lambda: is_served(mesh, process, name), PATIENCE)
        run = (await mesh.client.submit("What time is it?", roles=[name], wait=20)).run
        assert "It is " in answer_text(run)


def test_new_python_agent_is_checked_and_not_overwritten(tmp_path: Path) -> None:
    assert new_agent(tmp_path, "helper", "--python").code == 0
    assert new_agent(tmp_path, "helper", "--python").code == 2
    checked = Terminal(tmp_path / "home").archon("serve", str(tmp_path / "helper.py"), "--check")
    assert checked.out == f"{tmp_path / 'helper.py'} is a Python program.\n"


@pytest.mark.slow
async def test_reload_serves_what_the_file_has_become(mesh: Mesh, file: Path) -> None:
    tools, log = file.parent / "helper_tools.py", file.parent / "log.txt"
    async with serving(mesh, file.parent, *ARCHON, "serve", "--reload", file.name) as process:

        async def answers(text: str) -> bool:
            if not await is_served(mesh, process, "helper"):
                return False
            run = (await mesh.client.submit("What time is it?", roles=["helper"], wait=20)).run
            return text in answer_text(run)

        await eventually(lambda: answers("It is "), PATIENCE)
        source = tools.read_text()
        tools.write_text("this is no Python\n")

        await until(lambda: "The agent has ended; it starts again after a change." in log.read_text(), PATIENCE)
        tools.write_text(source.replace("It is", "The clock shows"))
        await eventually(lambda: answers("The clock shows "), PATIENCE)
    assert log.read_text().count("helper_tools.py has changed: the agent starts again.") == 2


def test_an_agent_without_a_registry_warns_that_it_is_not_found(tmp_path: Path) -> None:
    assert new_agent(tmp_path, "helper", "--python").code == 0
    environment = Terminal(tmp_path / "home").environment
    command = [sys.executable, "helper.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("no registry is configured (ARCHON_REGISTRY)" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


def test_chat_continues_a_session(file: Path) -> None:
    for line in ("Remember 42.", "What did I say?"):
        done = chat(str(file), file.parent, "--session", "s", stdin=f"{line}\n")
        assert done.code == 0, done.err
    with sqlite3.connect(file.parent / "home" / "sessions.db") as database:
        (count,) = database.execute("SELECT count(*) FROM archon_session_messages").fetchone()
    assert count == 8, "two queries, each with a call, its result and an answer"


def test_invalid_file_is_one_error_with_its_line(file: Path) -> None:
    file.write_text(file.read_text().replace("tools:", "tolls:"))
    for command in ("chat", "serve"):
        done = Terminal(file.parent / "home").fork(command, str(file))
        assert done.code == 2
        assert "helper.yaml:8: tolls: is not a key here; did you mean tools?" in done.err


async def test_served_file_is_a_role_with_tools_runs_and_chat(served: Mesh, served_file: Path) -> None:
    (instance,) = [listed for listed in await served.directory.list_instances() if listed.role == "waiter"]
    assert [(tool.name, bool(tool.input_schema_json)) for tool in instance.tools] == [("time_of_day", True)]
    run = (await served.client.submit("What time is it?", roles=["waiter"], wait=20)).run
    assert "It is " in answer_text(run)
    records = [record async for record in served.client.records(run.run_id)]
    assert [record.kind for record in records] == ["model", "tool", "model"]
    done = await chat_with_role(served, served_file, "And now?\n")
    assert (done.code, "It is " in done.out) == (0, True), done.err


async def chat_with_role(served: Mesh, served_file: Path, lines: str, *options: str) -> Result:
    address = served.orchestrator.address
    return await asyncio.to_thread(
        lambda: chat("waiter", served_file.parent, *options, stdin=lines, ARCHON_ORCHESTRATOR=address)
    )


async def test_chat_with_a_role_sends_each_line_once(served: Mesh, served_file: Path) -> None:
    for lines in ("What time is it?\nAnd now?\n", "Is it late?\n"):
        done = await chat_with_role(served, served_file, lines, "--session", "s")
        assert (done.code, "It is " in done.out) == (0, True), done.err
    runs = [run.run_id for run in await served.client.list_runs(session_id="s")][::-1]
    user_messages = []
    for run_id in runs:
        calls = [record async for record in served.client.records(run_id) if record.kind == "model"]
        messages = json.loads(calls[0].request_json)["messages"]
        user_messages.append([message["content"] for message in messages if message["role"] == "user"])
    assert user_messages == [
        ["What time is it?"],
        ["What time is it?", "And now?"],
        ["What time is it?", "And now?", "Is it late?"],
    ]


def kinds(events: list[AgentEvent], name: str) -> list[str]:
    """Returns the event types of one agent, without consecutive repetitions."""
    seen = [event.type for event in events if event.agent_name == name]
    return [kind for at, kind in enumerate(seen) if at == 0 or seen[at - 1] != kind]


TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]


async def test_same_file_runs_alone_as_sub_agent_and_in_the_mesh(served: Mesh, served_file: Path) -> None:
    events: list[AgentEvent] = []
    alone = load_agent(served_file).agent
    answer = await alone.run_async("What time is it?", event_handlers=[events.append])
    assert "It is " in answer
    calls = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert kinds(events, "waiter") == ["RUN_STARTED", *calls, *TEXT, "RUN_FINISHED"]
    for callee in (load_agent(served_file).agent, RemoteAgent("waiter", orchestrator=served.orchestrator.address)):
        events.clear()
        ask = says("", ToolCall("1", "waiter", '{"task": "What time is it?"}'))
        lead = Agent("lead", model=ScriptedModel([ask, says("done")]), sub_agents=[callee])
        assert await lead.run_async("?", event_handlers=[events.append]) == "done"
        assert kinds(events, "waiter") == ["RUN_STARTED", *calls, *TEXT, "RUN_FINISHED"]
        assert {event.parent_run_id for event in events if event.agent_name == "waiter"} == {events[0].run_id}
        (result,) = [message.content for message in lead.history if message.role == "tool"]
        assert "It is " in result
        await callee.close()


async def test_failure_in_the_mesh_is_reported_as_a_local_one(mesh: Mesh) -> None:
    ask = says("", ToolCall("1", "absent", '{"task": "go"}'))
    for callee, code in (
        (RemoteAgent("absent", orchestrator=mesh.orchestrator.address), "NOT_FOUND (UNKNOWN_ROLE)"),
        (RemoteAgent("absent", orchestrator="127.0.0.1:1"), "UNAVAILABLE"),
    ):
        events: list[AgentEvent] = []
        lead = Agent("lead", model=ScriptedModel([ask, says("done")]), sub_agents=[callee])
        assert await lead.run_async("?", event_handlers=[events.append]) == "done"
        (result,) = [message.content for message in lead.history if message.role == "tool"]
        assert result.startswith(f"Error {code}")
        assert kinds(events, "absent") == ["RUN_STARTED", "RUN_ERROR"]
        await callee.close()
