"""A run over four roles in Python and Go is exported, and replayed without a network and without its agents."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from archon.agent import AgentSettings, TaskContext
from archon.history import open_run_file, verify_run
from archon.registry import RegistryClient
from archon.testing import FakeAgent
from archon.types import Usage
from archon_services.replay import RunAgain, decide_again, replay_mesh
from archon_services.testing import InProcessMesh
from tests.fixtures.require import missing, require
from tests.fixtures.waiting import eventually
from tests.integration.services.replay.recorded import export

pytestmark = pytest.mark.slow

SOURCE: Final = Path(__file__).parent / "go_calls"
BUILT_WITHIN: Final = 300.0
REGISTERED_WITHIN: Final = 30.0
ENDS_WITHIN: Final = 60.0

ROLES: Final = {"reader": (), "finder": ("reader",), "critic": ("finder",), "editor": ("finder", "critic")}
"""The roles that each depends on."""
IN_GO: Final = ("finder", "editor")

ALONE: Final = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:  # a new network has the loopback alone, and it is down
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))
names = [name for _, name in socket.if_nameindex()]
assert names == ["lo"], names
try:
    socket.create_connection(("192.0.2.1", 80), 1)
    sys.exit("there is a network")
except OSError as error:
    assert error.errno == 101, error  # unreachable
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a program in a network that has nothing but this process and its children."""


class Ledger:
    """A line for each task that an agent has worked at: its role and the id of the task."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def note(self, role: str, task_id: str) -> None:
        with self.file.open("a") as out:
            out.write(f"{role} {task_id}\n")

    def roles(self) -> list[str]:
        """The roles that have worked, sorted."""
        return sorted(line.split()[0] for line in self.file.read_text().splitlines())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The role in Go, which Go builds again if its sources have changed."""
    built = tmp_path_factory.mktemp("go") / "calls"
    command = [str(require("go")), "build", "-o", str(built), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=BUILT_WITHIN)
    assert done.returncode == 0, done.stderr
    return built


def in_python(role: str, ledger: Ledger, settings: AgentSettings) -> FakeAgent:
    """A role in Python, which records what the role in Go records."""

    async def work(task: TaskContext) -> str:
        ledger.note(role, task.task_id)
        started = time.time()
        task.record_tool_call("look_up", {"of": role}, {"found": len(task.context)}, started=started, seconds=0.001)
        text = f"read by {role} of [{'; '.join(item.text for item in task.context)}]"
        usage = Usage(input_tokens=12, output_tokens=7)
        request, response = {"prompt": task.text}, {"text": text}
        task.record_model_call("small", request, response, started=started, seconds=0.001, usage=usage)
        return text

    return FakeAgent(role, [work], settings=settings, depends_on=ROLES[role])


@asynccontextmanager
async def in_go(program: Path, role: str, word: str, ledger: Ledger, registry: str) -> AsyncIterator[None]:
    """A process of a role in Go, registered."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    own = {"ARCHON_REGISTRY": registry, "ARCHON_PORT": "0", "ARCHON_LOG_LEVEL": "warning"}
    arguments = (role, ",".join(ROLES[role]), word, str(ledger.file))
    process = await asyncio.create_subprocess_exec(program, *arguments, env={**inherited, **own})
    try:
        async with RegistryClient(registry) as client:

            async def registered() -> bool:
                assert process.returncode is None
                return role in {instance.role for instance in await client.list_instances()}

            await eventually(registered, REGISTERED_WITHIN)
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture(scope="module")
async def recorded(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a run, whose mesh and agents have ended."""
    folder = tmp_path_factory.mktemp("recorded")
    ledger, file = Ledger(folder / "ledger"), folder / "run.archon"
    async with InProcessMesh(folder) as mesh, AsyncExitStack() as stack:
        for role in ROLES:
            if role in IN_GO:
                await stack.enter_async_context(in_go(program, role, "written", ledger, mesh.registry.address))
            else:
                await stack.enter_async_context(in_python(role, ledger, mesh.agent_settings()))
        handle = await mesh.client.submit("The clerk sees all overdue books.", roles=list(ROLES))
        assert (await handle.result(ENDS_WITHIN)).state == "completed"
        exported = await export(mesh, handle.run_id, file)
    assert exported.records == 2 * len(ROLES) and not exported.missing
    assert ledger.roles() == sorted(ROLES)
    return file


def test_the_calls_of_both_languages_are_in_the_file(recorded: Path) -> None:
    records = list(open_run_file(recorded).records())
    calls = {(record.role, record.kind, record.target) for record in records}
    assert calls == {(role, kind, name) for role in ROLES for kind, name in (("model", "small"), ("tool", "look_up"))}
    for record in records:
        response = json.loads(record.proto.response_json)
        assert set(response) == ({"text"} if record.kind == "model" else {"found"})


def test_it_replays_bit_for_bit_without_a_network(recorded: Path, tmp_path: Path) -> None:
    replayed = replay_alone(recorded.read_bytes(), tmp_path)
    assert replayed["decided"]["same"]
    again = replayed["run_again"]
    assert again["same"] and not again["differences"] and not again["late"] and not again["stops"], again
    assert again["tasks"] == again["answers"] == len(ROLES)
    ledger = {row["role"]: (row["live"], row["from_file"]) for row in again["ledger"]}
    assert ledger == dict.fromkeys(ROLES, (0, 1))


def replay_alone(content: bytes, home: Path) -> dict[str, Any]:
    """Replays a file in a network of its own, with an empty home and environment. Returns the document."""
    file = home / "run.archon"
    file.write_bytes(content)
    archon = str(Path(sys.executable).with_name("archon"))
    command = ["unshare", "-rn", sys.executable, "-c", ALONE, archon, "replay", str(file), "--json"]
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, timeout=10).returncode:
        missing("unshare", "no process may have a network of its own here")
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "GRPC_VERBOSITY": "NONE"}
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=ENDS_WITHIN)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("word", ["written", "rewritten"])
async def test_only_the_live_role_works_again(program: Path, recorded: Path, tmp_path: Path, word: str) -> None:
    ledger, file = Ledger(tmp_path / "ledger"), open_run_file(recorded)
    history = file.history()
    assert not verify_run(history.run_id, history.steps, last_seq=history.last_seq, ended=history.ended).fault
    async with (
        replay_mesh(decide_again(history), file.records(), live=["finder"]) as mesh,
        in_go(program, "finder", word, ledger, mesh.registry),
    ):
        again = await mesh.run()
    assert ledger.roles() == ["finder"]
    assert dict(again.played.ledger) == {(role, role == "finder"): 1 for role in ROLES}
    if word == "written":
        assert again.same, again
    else:
        assert_only_finder_changed(again)


def assert_only_finder_changed(again: RunAgain) -> None:
    """The live role gave another answer; those after it were sent it, and answered from the file."""
    assert not again.same
    changed = [(task, fields(difference.fields)) for task, difference in again.comparison.differences]
    assert changed == [("finder", ["output[0].text"])]
    assert [other.task for other in again.played.contexts] == ["critic", "editor"]
    answers = {event.result.role: event.result.output[0].text for event in again.events if event.HasField("result")}
    assert answers["finder"].startswith("rewritten by finder of [read by reader")
    assert answers["editor"].startswith("written by editor of [written by finder")


def fields(differences: Sequence[Any]) -> list[str]:
    return [difference.path for difference in differences]
