"""Roles as processes: settings from flags and environment, and ends on signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from archon.testing.frame_orchestrator import FrameOrchestrator
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk
from tests.fixtures.programs import Program, program
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import until

DESIGNER = ["-m", "archon_services.agents", "designer"]

# A user's role that is configured by the environment only.
OWN_ROLE = """
import sys
from archon_mesh.node import Role, serve
sys.exit(serve(Role("poet", "You are a poet.")))
"""

# A handler that ignores cancellation, with a short grace period.
STUBBORN = """
import asyncio, sys
from archon.agent import AgentServer
agent = AgentServer("stubborn")
@agent.task
async def work(task):
    task.write("begun")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
sys.exit(agent.run())
"""

# A role whose registration each registry refuses: its tag is too long.
REFUSED = """
import sys
from archon.agent import AgentServer
from archon.registry import RegistryClient
RegistryClient.register.__kwdefaults__["timeout"] = 0.5
agent = AgentServer("poet", tags={"ode": "o" * 1000})
@agent.task
async def work(task):
    return "done"
sys.exit(agent.run())
"""


@asynccontextmanager
async def process(
    arguments: list[str], folder: Path, forked: bool = True, **environment: str
) -> AsyncIterator[tuple[Program, str]]:
    """Starts a program; yields it and the address that it serves on."""
    ready_file = folder / "ready"
    variables = {**inherited(), "ARCHON_READY_FILE": str(ready_file), **environment}
    async with program(arguments, variables, folder / "log", forked=forked) as child:
        await until(lambda: bool(_content(ready_file)) or child.returncode is not None)
        assert child.returncode is None, child.errors
        yield child, _content(ready_file)


def inherited() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("ARCHON_", "OPENAI_"))}


def _content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def test_a_reference_role_answers_as_its_own_process(tmp_path: Path) -> None:
    arguments = [*DESIGNER, "--max-tasks", "3", "--depends-on", "requirements,critic"]
    async with process(arguments, tmp_path, forked=False, ARCHON_MAX_TASKS="9") as (child, address):
        async with FrameOrchestrator(address) as peer:
            assert (await peer.open()).max_tasks == 3  # a flag takes precedence over the environment
            ref = peer.ref("one")
            requirements = "R1. It must export invoices as PDF."
            await peer.send(peer.assignment(ref, "Build it.", context=[("requirements", requirements)]))
            result = await peer.result(ref)
            assert f"From requirements: {requirements}" in result.output[0].text
        child.send_signal(signal.SIGTERM)
        assert await child.wait(10) == 0


async def test_sigterm_finishes_and_delivers_tasks_in_progress(tmp_path: Path) -> None:
    async with OpenAIServer() as model:
        model.script(Answer(events=[chunk({"content": "C1. Late"}), chunk(finish="stop")], delay=0.3))
        arguments = [*DESIGNER, "--model", "openai/some"]
        async with (
            process(arguments, tmp_path, OPENAI_BASE_URL=model.url) as (child, address),
            FrameOrchestrator(address) as peer,
        ):
            await peer.open()
            ref = peer.ref("one")
            await peer.assign(ref, "Build it.")
            await asyncio.wait_for(model.arrived.wait(), 10.0)
            child.send_signal(signal.SIGTERM)
            await peer.receive("drain")
            assert not any(frame.HasField("result") for frame in peer.frames)
            assert (await peer.result(ref)).output[0].text == "C1. Late"
            assert await peer.ended() is None
            assert await child.wait(10) == 0


async def test_a_users_role_is_configured_by_the_environment(tmp_path: Path) -> None:
    async with process(["-c", OWN_ROLE], tmp_path, OPENAI_API_KEY="never used") as (child, address):
        async with FrameOrchestrator(address) as peer:
            await peer.open()
            ref = peer.ref("one")
            await peer.assign(ref, "a poem")
            assert "Offline model" in (await peer.result(ref)).output[0].text
        child.send_signal(signal.SIGINT)
        assert await child.wait(10) == 0


async def test_a_handler_that_ignores_cancel_makes_exit_code_1(tmp_path: Path) -> None:
    async with (
        process(["-c", STUBBORN], tmp_path, ARCHON_DRAIN="0.1") as (child, address),
        FrameOrchestrator(address) as peer,
    ):
        await peer.open()
        await peer.assign(peer.ref("one"))
        await peer.receive("progress")
        child.send_signal(signal.SIGTERM)
        assert await child.wait(10) == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "message"),
    [
        pytest.param([*DESIGNER, "--port", "many"], {}, 2, "flag --port is 'many'", marks=pytest.mark.slow),
        pytest.param(
            DESIGNER, {"ARCHON_MODEL": "crystal-ball"}, 1, "unknown model 'crystal-ball'", marks=pytest.mark.slow
        ),
        pytest.param(["-c", OWN_ROLE], {"ARCHON_PORT": "many"}, 2, "ARCHON_PORT is 'many'", marks=pytest.mark.slow),
        (DESIGNER, {"ARCHON_MODEL": "openai/gpt-4o-mini"}, 1, "no API key for OpenAI"),
        (["-c", OWN_ROLE], {"ARCHON_MODEL": "crystal-ball"}, 2, "unknown model 'crystal-ball'"),
    ],
)
async def test_a_process_that_cannot_start_exits_with_a_message(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], code: int, message: str
) -> None:
    async with program(arguments, {**inherited(), **environment}, tmp_path / "log") as child:
        assert (await child.wait(15), message in child.errors) == (code, True), child.errors
    assert "Traceback" not in child.errors


@pytest.mark.parametrize("late", [False, True], ids=["at the start", "later"])
async def test_an_agent_that_is_refused_ends_with_an_error(tmp_path: Path, late: bool) -> None:
    registry = ServiceProcess("archon_services.registry", tmp_path, ARCHON_ETCD="memory")
    address = await registry.start()
    if late:
        await registry.kill()
    variables = {**inherited(), "ARCHON_REGISTRY": address, "ARCHON_READY_FILE": str(tmp_path / "ready")}
    try:
        async with program(["-c", REFUSED], variables, tmp_path / "agent.log") as child:
            if late:
                await until((tmp_path / "ready").exists, 30)
                await registry.start()
            assert await child.wait(30) == 1
            assert "registration.tags" in child.errors
    finally:
        await registry.close()


async def test_an_agent_with_an_invalid_name_ends_with_an_error(tmp_path: Path) -> None:
    variables = {**inherited(), "ARCHON_REGISTRY": "127.0.0.1:1"}
    async with program(["-c", REFUSED.replace("poet", "my_poet")], variables, tmp_path / "agent.log") as child:
        assert await child.wait(30) == 1
        assert "invalid role name 'my_poet'" in child.errors
