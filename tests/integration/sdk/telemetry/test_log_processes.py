"""The lines of real processes: their fields, their form, and what a reader that stops does to them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from archon import context
from archon.testing.frame_orchestrator import FrameOrchestrator
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.programs import Program, descriptor_path, program
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import until

PAGE = Path(__file__).parents[4] / "docs" / "observability.md"
TRACE = "0af7651916cd43dd8448eb211c80319c"
ROLES = ("requirements", "designer", "implementer")

# An agent whose model has a price, and whose tool fails and logs by itself.
POET = """
import logging, sys
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ScriptedModel
from archon_mesh.llm.base import Usage
from archon_mesh.node import Role, serve
from archon_mesh.tools import tool

@tool
def rhyme() -> str:
    '''Finds a rhyme.'''
    try:
        raise KeyError("month")
    except KeyError:
        logging.getLogger("some.library").exception("no rhyme\\nfor a word")
        raise

usage = Usage(10, 5, cost_micro_usd=30)
call = ModelReply("", (ToolCall("1", "rhyme", "{}"),), usage, "poetic", "tool_calls")
model = ScriptedModel([call, ModelReply("A poem.", (), usage, "poetic", "stop")])
sys.exit(serve(Role("poet", "You are a poet."), Agent("poet", model=model, tools=[rhyme])))
"""

# A handler that logs more than any pipe holds.
TALKER = """
import logging, sys
from archon.agent import AgentServer
agent = AgentServer("talker")
@agent.task
async def work(task):
    for number in range(2_000):
        logging.getLogger("talker").info("line %d", number)
    return "done"
sys.exit(agent.run())
"""

CRASH = """
import sys
from archon.agent import AgentServer
agent = AgentServer("crash")
@agent.task
async def work(task):
    raise ValueError("no order 17")
sys.exit(agent.run())
"""


@asynccontextmanager
async def agent(code: str, ready_file: Path, log: Path, **environment: str) -> AsyncIterator[tuple[Program, str]]:
    """Starts an agent in a process of its own, which logs to a file, a pipe or a terminal; yields it and its address."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ARCHON_", "OTEL_"))}
    variables = {**inherited, "ARCHON_READY_FILE": str(ready_file), **environment}
    forked = not environment.get("PYTHONUNBUFFERED")  # Python reads its own variables when it starts
    async with program(["-c", code], variables, Path(os.devnull), log, forked=forked) as child:
        await until(lambda: ready_file.exists() or child.returncode is not None, 20.0)
        yield child, await asyncio.to_thread(ready_file.read_text)


def fields_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_the_fields_of_processes_are_those_of_the_page(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with agent(POET, tmp_path / "ready", log) as (child, address), FrameOrchestrator(address) as peer:
        await peer.open()
        ref = peer.ref("one")
        assignment = peer.assignment(ref, "a poem")
        assignment.assign_task.trace.traceparent = f"00-{TRACE}-b7ad6b7169203331-01"
        await peer.send(assignment)
        assert (await peer.result(ref)).output[0].text == "A poem."
        child.send_signal(signal.SIGTERM)
        await child.wait(10)
    lines = fields_of(log.read_text())
    page = PAGE.read_text().partition("\n## Logs\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", page, re.M)
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    of_calls = {"identity", "actor"}  # of calls with credentials, which this agent gets none of
    assert documented - of_calls == {name for line in lines for name in line}
    failed = next(line for line in lines if line["logger"] == "some.library")
    assert failed["message"] == "no rhyme\nfor a word"
    assert failed["error"].keys() == {"type", "message", "stack"}
    assert (failed["run_id"], failed["task_id"], failed["trace_id"]) == (ref.run_id, ref.task_id, TRACE)
    model, tool, _ = (line for line in lines if line["logger"] == "archon.calls")
    assert (model["model"], model["cost_usd"], tool["tool"], tool["outcome"]) == ("poetic", 3e-05, "rhyme", "failed")


async def test_each_agent_of_a_run_has_a_line_with_its_ids(process_mesh: ProcessMesh) -> None:
    for role in ROLES:
        process = ServiceProcess(
            "archon_services.agents", process_mesh.home, role, ARCHON_REGISTRY=process_mesh.registry.address
        )
        process_mesh.processes.append(process)
        await process_mesh.seen(await process.start())
    with context.serving(context.CallContext(traceparent=f"00-{TRACE}-b7ad6b7169203331-01")):
        handle = await process_mesh.client.submit("Build a shop", roles=ROLES, wait=30)
    instances = {each.instance_id: each.role for each in await process_mesh.directory.list_instances()}
    lines = [line for line in fields_of(process_mesh.processes[0].log.read_text()) if line["logger"] == "archon.calls"]
    assert sorted(line["role"] for line in lines) == sorted(ROLES), "one line each"
    for line in lines:
        assert (line["run_id"], line["trace_id"], line["attempt"]) == (handle.run_id, TRACE, 1)
        assert line["task_id"].startswith(handle.run_id)
        assert instances[line["instance_id"]] == line["role"] == line["service"]
    (serving,) = fields_of(process_mesh.orchestrator.log.read_text())
    assert (serving["service"], serving["level"]) == ("archon-orchestrator", "info")
    assert serving["instance_id"].startswith("orchestrator-")


async def test_an_exception_of_a_handler_is_logged_with_its_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with agent(CRASH, tmp_path / "ready", log) as (_, address), FrameOrchestrator(address) as peer:
        await peer.open()
        ref = peer.ref("one")
        await peer.assign(ref)
        incident = (await peer.result(ref)).failure.metadata["incident"]
    (line,) = [line for line in fields_of(log.read_text()) if line["level"] == "error"]
    assert incident in line["message"]
    assert (line["run_id"], line["task_id"], line["attempt"], line["role"]) == (ref.run_id, ref.task_id, 1, "crash")
    assert (line["error"]["type"], line["error"]["message"]) == ("ValueError", "no order 17")


@pytest.mark.parametrize(
    ("environment", "begin"),
    [
        ({}, r"\x1b\[2m\d\d:\d\d:\d\d\.\d{3}\x1b\[0m \x1b\[32minfo   \x1b\[0m talker-\w+ serves on "),
        ({"NO_COLOR": "1"}, r"\d\d:\d\d:\d\d\.\d{3} info    talker-\w+ serves on "),
        ({"ARCHON_LOG_FORMAT": "json"}, r'\{"time": "[^"]+", "level": "info", "message": "talker-\w+ serves on '),
    ],
    ids=["colours", "NO_COLOR", "json"],
)
async def test_a_terminal_gets_text(tmp_path: Path, environment: dict[str, str], begin: str) -> None:
    ours, theirs = pty.openpty()
    variables = {"TERM": "xterm", "NO_COLOR": "", **environment}
    try:
        async with agent(TALKER, tmp_path / "ready", descriptor_path(theirs), **variables) as (child, _):
            text = ""
            while "serves on" not in text:
                text += (await asyncio.wait_for(asyncio.to_thread(os.read, ours, 65536), 10)).decode()
            child.send_signal(signal.SIGTERM)
            await child.wait(10)
    finally:
        os.close(ours)
        os.close(theirs)
    assert any(re.match(begin, line) for line in text.splitlines()), text


@pytest.mark.parametrize("unbuffered", ["", "1"])
async def test_a_pipe_that_no_one_reads_stops_no_agent(tmp_path: Path, unbuffered: str) -> None:
    reader, writer = os.pipe()
    log = descriptor_path(writer)
    try:
        async with agent(TALKER, tmp_path / "ready", log, PYTHONUNBUFFERED=unbuffered) as (child, address):
            async with FrameOrchestrator(address) as peer:
                await peer.open()
                ref = peer.ref("one")
                await peer.assign(ref)
                assert (await peer.result(ref)).output[0].text == "done"
            child.send_signal(signal.SIGTERM)
            assert await child.wait(60) == 0, "its end does not wait for the reader"
    finally:
        os.close(writer)
        os.close(reader)
