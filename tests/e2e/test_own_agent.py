"""An agent in a YAML file: created, chatted with, served and called, with the same events each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archon.client import answer_text
from archon_mesh.agent import Agent, AgentEvent
from archon_mesh.core.messages import ToolCall
from archon_mesh.declared import load_agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import RemoteAgent
from tests.fixtures.mesh import Mesh
from tests.fixtures.scripted_model import says
from tests.fixtures.waiting import eventually, until

ARCHON = [str(Path(sys.executable).parent / "archon")]


def archon(
    *arguments: str, cwd: Path, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    return subprocess.run(
        [*ARCHON, *arguments],
        cwd=cwd,
        input=stdin,
        env={**inherited, "ARCHON_HOME": str(cwd / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that `archon new agent` writes."""
    done = archon("new", "agent", "helper", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path / "helper.yaml"


@pytest.fixture
async def mesh(etcd: object, tmp_path: Path) -> AsyncIterator[Mesh]:
    mesh = Mesh(tmp_path / "mesh", etcd.address)  # type: ignore[attr-defined]
    mesh.home.mkdir()
    await mesh.start()
    yield mesh
    await mesh.stop()


@pytest.fixture
async def served(mesh: Mesh, file: Path) -> AsyncIterator[Mesh]:
    """The mesh with the file as a role, served by `archon serve`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    process = subprocess.Popen(
        [*ARCHON, "serve", str(file), "--registry", mesh.registry.address], env=environment, stderr=subprocess.DEVNULL
    )

    async def registered() -> bool:
        assert process.poll() is None
        return any(instance.role == "helper" for instance in await mesh.directory.list_instances())

    await eventually(registered, 20)
    yield mesh
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_new_agent_runs_and_is_not_overwritten(file: Path) -> None:
    folder = file.parent
    assert archon("serve", file.name, "--check", cwd=folder).stdout.strip().endswith("with 1 tool (time_of_day).")
    done = archon("chat", file.name, cwd=folder, stdin="What time is it?\n\n")
    assert done.returncode == 0, done.stderr
    assert "It is " in done.stdout
    assert "[time_of_day]" in done.stderr
    again = archon("new", "agent", "helper", cwd=folder)
    assert (again.returncode, "already exist" in again.stderr) == (2, True)
    assert archon("new", "agent", "no good", cwd=folder).returncode == 2
    schema = json.loads((folder / "helper.schema.json").read_text())
    assert schema["title"] == "An agent of Archon"


def serving(mesh: Mesh, folder: Path, *command: str) -> subprocess.Popen[str]:
    """Starts a command that serves an agent in the mesh."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    environment["ARCHON_REGISTRY"] = mesh.registry.address
    with (folder / "log.txt").open("w") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stderr=log, text=True)


async def instances_of(mesh: Mesh, role: str) -> list[str]:
    return [instance.instance_id for instance in await mesh.directory.list_instances() if instance.role == role]


@pytest.mark.parametrize("command", [(*ARCHON, "serve"), (sys.executable,)])
async def test_new_python_agent_serves_its_tool(mesh: Mesh, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert archon("new", "agent", "helper", "--python", cwd=tmp_path).stdout.startswith("Wrote helper.py.")
    assert archon("new", "agent", "helper", "--python", cwd=tmp_path).returncode == 2
    assert archon("serve", "helper.py", "--check", cwd=tmp_path).stdout == "helper.py is a Python program.\n"
    with serving(mesh, tmp_path, *command, "helper.py") as process:

        async def registered() -> bool:
            assert process.poll() is None
            return bool(await instances_of(mesh, "helper"))

        await eventually(registered, 30)
        run = (await mesh.client.submit("What time is it?", roles=["helper"], wait=20)).run
        assert "It is " in answer_text(run)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


async def test_reload_serves_what_the_file_has_become(mesh: Mesh, file: Path) -> None:
    tools, log = file.parent / "helper_tools.py", file.parent / "log.txt"
    with serving(mesh, file.parent, *ARCHON, "serve", "--reload", file.name) as process:

        async def answers(text: str) -> bool:
            assert process.poll() is None
            if not await instances_of(mesh, "helper"):
                return False
            run = (await mesh.client.submit("What time is it?", roles=["helper"], wait=20)).run
            return text in answer_text(run)

        await eventually(lambda: answers("It is "), 30)
        source = tools.read_text()
        tools.write_text("this is no Python\n")

        await until(lambda: "The agent has ended; it starts again after a change." in log.read_text(), 30)
        tools.write_text(source.replace("It is", "The clock shows"))
        await eventually(lambda: answers("The clock shows "), 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert log.read_text().count("helper_tools.py has changed: the agent starts again.") == 2


def test_an_agent_without_a_registry_warns_that_it_is_not_found(tmp_path: Path) -> None:
    assert archon("new", "agent", "helper", "--python", cwd=tmp_path).returncode == 0
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    command = [sys.executable, "helper.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("no registry is configured (ARCHON_REGISTRY)" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def test_chat_continues_a_session(file: Path) -> None:
    for line in ("Remember 42.", "What did I say?"):
        done = archon("chat", file.name, "--session", "s", cwd=file.parent, stdin=f"{line}\n")
        assert done.returncode == 0, done.stderr
    import sqlite3

    with sqlite3.connect(file.parent / "home" / "sessions.db") as database:
        (count,) = database.execute("SELECT count(*) FROM archon_session_messages").fetchone()
    assert count == 8, "two queries, each with a call, its result and an answer"


def test_invalid_file_is_one_error_with_its_line(file: Path) -> None:
    file.write_text(file.read_text().replace("tools:", "tolls:"))
    for command in (["chat", file.name], ["serve", file.name]):
        done = archon(*command, cwd=file.parent)
        assert done.returncode == 2
        assert "helper.yaml:8: tolls: is not a key here; did you mean tools?" in done.stderr
        assert "Traceback" not in done.stderr


async def test_served_file_is_a_role_with_tools_runs_and_chat(served: Mesh, file: Path) -> None:
    (instance,) = [listed for listed in await served.directory.list_instances() if listed.role == "helper"]
    assert [(tool.name, bool(tool.input_schema_json)) for tool in instance.tools] == [("time_of_day", True)]
    run = (await served.client.submit("What time is it?", roles=["helper"], wait=20)).run
    assert "It is " in answer_text(run)
    records = [record async for record in served.client.records(run.run_id)]
    assert [record.kind for record in records] == ["model", "tool", "model"]
    done = archon(
        "chat", "helper", cwd=file.parent, stdin="And now?\n", ARCHON_ORCHESTRATOR=served.orchestrator.address
    )
    assert (done.returncode, "It is " in done.stdout) == (0, True), done.stderr


async def test_chat_with_a_role_sends_each_line_once(served: Mesh, file: Path) -> None:
    for lines in ("What time is it?\nAnd now?\n", "Is it late?\n"):
        done = archon(
            *("chat", "helper", "--session", "s"),
            cwd=file.parent,
            stdin=lines,
            ARCHON_ORCHESTRATOR=served.orchestrator.address,
        )
        assert (done.returncode, "It is " in done.stdout) == (0, True), done.stderr
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


async def test_same_file_runs_alone_as_sub_agent_and_in_the_mesh(served: Mesh, file: Path) -> None:
    events: list[AgentEvent] = []
    alone = load_agent(file).agent
    answer = await alone.run_async("What time is it?", event_handlers=[events.append])
    assert "It is " in answer
    calls = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert kinds(events, "helper") == ["RUN_STARTED", *calls, *TEXT, "RUN_FINISHED"]
    for callee in (load_agent(file).agent, RemoteAgent("helper", orchestrator=served.orchestrator.address)):
        events.clear()
        ask = says("", ToolCall("1", "helper", '{"task": "What time is it?"}'))
        lead = Agent("lead", model=ScriptedModel([ask, says("done")]), sub_agents=[callee])
        assert await lead.run_async("?", event_handlers=[events.append]) == "done"
        assert kinds(events, "helper") == ["RUN_STARTED", *calls, *TEXT, "RUN_FINISHED"]
        assert {event.parent_run_id for event in events if event.agent_name == "helper"} == {events[0].run_id}
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
