"""The program that `archon new agent` writes builds, passes its test and answers in a mesh, by the commands that are printed
for it, in each language."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from archon_services.cli import new_project
from archon_services.cli.commands.new import PYTHON, agent
from archon_services.testing.mesh import LocalMesh
from tests.conformance.sdks import SDKS, sdk, see_rest
from tests.fixtures.environment import CALLER
from tests.fixtures.require import missing
from tests.fixtures.waiting import wait_until
from tests.interop import cache

pytestmark = pytest.mark.slow

ROLE: Final = "greeter"
BUILT_WITHIN: Final = 300.0
"""Seconds for a command that builds or tests the program: the first one may fetch packages."""

ANSWERED_WITHIN: Final = 90.0
"""Seconds for the program to start and to answer: `npm start` and `go run` build it."""

STOPPED_WITHIN: Final = 40.0


@pytest.fixture(scope="module")
def mesh() -> Iterator[LocalMesh]:
    """A mesh of the reference roles."""
    with LocalMesh() as mesh:
        yield mesh


@contextmanager
def built_sdk(language: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets `archon new agent` name a built copy of the SDK, so that no test changes the sources' own folders. Skips
    without the programs of the language, unless ARCHON_REQUIRE names it."""
    build = sdk(language).build
    for program in build.needs:
        if build.find(program) is None:
            missing(build.name, f"{program} is neither in .tools/bin nor on PATH")
    build.run()
    see_rest(build)
    monkeypatch.setattr(new_project, "local_sdk", lambda _: build.target)
    with ExitStack() as stack:
        if language == "java":  # the repository of Maven in the user's folder has one SDK of this version
            stack.enter_context(cache.lock(cache.folder() / "maven.lock"))
        yield


def environment(mesh: LocalMesh) -> dict[str, str]:
    """Returns the variables of a user's shell, with `archon` on its PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{CALLER['PATH']}"
    inherited = {key: text for key, text in CALLER.items() if not key.startswith("ARCHON_")}
    return {**inherited, "PATH": path, "ARCHON_HOME": str(mesh.home)}


def shell(command: str, folder: Path, env: Mapping[str, str], within: float) -> str:
    """Runs a command as a user types it. Returns its output; fails the test if it fails."""
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=dict(env), capture_output=True, text=True, timeout=within
    )
    assert done.returncode == 0, f"{command}\n{(done.stdout + done.stderr)[-4000:]}"
    return done.stdout + done.stderr


@contextmanager
def served(command: str, folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Serves an agent as in a terminal, and ends it by Ctrl-C, after which it must drain."""
    with (folder / "served.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env=dict(env), stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: is_registered(folder, env), ANSWERED_WITHIN)
        yield
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all of the foreground
        process.wait(STOPPED_WITHIN)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def is_registered(folder: Path, env: Mapping[str, str]) -> bool:
    """Returns whether the mesh lists an instance of the role."""
    return ROLE in shell("archon agents", folder, env, 30)


def commands(printed: str) -> tuple[list[str], str, str]:
    """Returns the printed commands: those that build and test the program, that serve it, and that give it a task."""
    lines = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    exported = next(number for number, line in enumerate(lines) if line.startswith("export "))
    building = [line for line in lines[:exported] if not line.startswith("(cd ")]  # the SDK is built
    return building, f"{lines[exported]}; exec {lines[exported + 1]}", lines[exported + 2]


@pytest.mark.parametrize(
    "language", [pytest.param(each.name, marks=pytest.mark.search if each.name == "java" else ()) for each in SDKS]
)
def test_the_printed_commands_make_an_agent_that_answers(
    language: str,
    mesh: LocalMesh,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    env = environment(mesh)
    monkeypatch.setenv("ARCHON_HOME", str(mesh.home))
    with built_sdk(language, monkeypatch):
        agent(ROLE, folder=tmp_path, lang=language)
        building, serve, ask = commands(capsys.readouterr().out)
        shell("; ".join(building), tmp_path, env, BUILT_WITHIN)
        with served(serve, tmp_path / ROLE, env):
            assert "You said: hello" in shell(f"{ask} --timeout 60", tmp_path, env, ANSWERED_WITHIN)
    # It has left the registry as it was stopped.
    assert not is_registered(tmp_path, env)


def test_the_program_in_python_answers(
    mesh: LocalMesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {**environment(mesh), "ARCHON_REGISTRY": mesh.registry}
    agent(ROLE, folder=tmp_path, lang=PYTHON)
    assert f"archon serve {tmp_path / ROLE}.py" in capsys.readouterr().out
    for serve in (f"python {ROLE}.py", f"archon serve {ROLE}.py"):
        with served(f"exec {serve}", tmp_path, env):
            answer = shell(f'archon run --role {ROLE} "What time is it?" --timeout 60', tmp_path, env, ANSWERED_WITHIN)
            assert f"{ROLE}  completed" in answer
        assert not is_registered(tmp_path, env)
