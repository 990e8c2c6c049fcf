"""Standard streams that are closed, end early or are full, and variables and files as editors on Windows leave them."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import ARCHON, PATIENCE, Result, Terminal

COMMANDS = ("runs", "status", "agents", "doctor", "show last", "run 'It must be blue.'", "no-such-command")
SOME = ("runs", "run 'It must be blue.'", "no-such-command")
ALL_CLOSED = ">&- <&- 2>&-"
CLOSED = (">&-", "<&-", "2>&-", ALL_CLOSED)
COMMAND_AND_CLOSED = [
    pytest.param(command, closed, marks=[] if closed == ALL_CLOSED and command in SOME else pytest.mark.search)
    for command in COMMANDS
    for closed in CLOSED
]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A mesh with a run that has completed."""
    with small_mesh(tmp_path_factory.mktemp("mesh"), *PIPELINE) as terminal:
        assert terminal.fork("run", "It must be blue.").code == 0
        yield terminal


def shell(terminal: Terminal, command: str, **environment: str) -> Result:
    """Runs `archon COMMAND` in a shell, in which the command may have redirections and pipes."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{shlex.join(ARCHON)} {command}"],
        env={**terminal.environment, **environment},
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return Result(done.returncode, done.stdout, done.stderr)


CODES = {"no-such-command": 2}
"""Exit codes of COMMANDS that are not 0."""


@pytest.mark.parametrize(("command", "closed"), COMMAND_AND_CLOSED)
def test_a_command_works_with_closed_streams(mesh: Terminal, command: str, closed: str) -> None:
    result = shell(mesh, f"{command} {closed}")
    assert result.code == CODES.get(command, 0)
    assert not any(word in result.err for word in ("Traceback", "AttributeError", "NoneType"))


@pytest.mark.parametrize(
    "command",
    ["runs --json", *(pytest.param(each, marks=pytest.mark.search) for each in ("status", "run --json hello"))],
)
def test_a_reader_that_ends_early_ends_the_command_quietly(mesh: Terminal, command: str) -> None:
    result = shell(mesh, f"{command} | true")
    assert result.code == 141
    assert not any(word in result.err for word in ("Traceback", "Exception", "error:"))


def test_output_that_cannot_be_written_is_an_error(mesh: Terminal) -> None:
    result = shell(mesh, "runs > /dev/full")
    assert (result.code, result.err) == (1, "error: cannot write the output: No space left on device\n")


@pytest.mark.search
def test_up_and_down_work_with_closed_streams(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    ports = " ".join(terminal._with_ports(["up"])[1:])
    try:
        started = shell(terminal, f"up --detach --only registry,orchestrator,requirements {ports} >&- <&- 2>&-")
        assert started.code == 0
        assert shell(terminal, "agents >&- 2>&-").code == 0
        assert "requirements" in shell(terminal, "agents").out
    finally:
        assert shell(terminal, "down >&- <&- 2>&-").code == 0
    assert not terminal.processes()


@pytest.mark.parametrize("end", ["\t\r\n", pytest.param("\r", marks=pytest.mark.search)])
def test_a_variable_may_end_as_windows_editors_leave_it(mesh: Terminal, end: str) -> None:
    home = {"ARCHON_HOME": mesh.environment["ARCHON_HOME"] + end}
    assert "requirements" in shell(mesh, "agents", **home).out
    state = mesh.state()
    addresses = {
        "ARCHON_REGISTRY": "\ufeff" + state.registry + end,
        "ARCHON_ORCHESTRATOR": state.address("orchestrator") + end,
        "ARCHON_MODEL": "offline" + end,
        "OTEL_TRACES_EXPORTER": "none" + end,
    }
    for command in ("agents", "run hello"):
        result = shell(mesh, command, **addresses, **home)
        assert result.code == 0, result.err
    assert shell(mesh, "agents$'\\r'").code == 0


@pytest.mark.search
def test_services_and_agents_take_such_variables(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home", ARCHON_LOG_LEVEL="debug\r", ARCHON_MODEL="offline \r", ARCHON_DRAIN="2\r")
    (tmp_path / "config.yaml").write_bytes(b"\xef\xbb\xbfcommon:\r\n  log_format: json  \r\n")
    terminal.environment["ARCHON_CONFIG"] = f"{tmp_path / 'config.yaml'}\r"
    try:
        started = terminal.fork("up", "--detach", "--only", "registry,orchestrator,requirements")
        assert started.code == 0, started.err
        assert terminal.fork("run", "--role", "requirements", "It must be blue.").code == 0
    finally:
        terminal.archon("down")
    assert not terminal.processes()


def test_files_may_begin_with_a_byte_order_mark(mesh: Terminal, tmp_path: Path) -> None:
    goal, agent = tmp_path / "goal.md", tmp_path / "helper.yaml"
    goal.write_bytes("\ufeffIt must be blue.\r\n".encode())
    agent.write_bytes("\ufeffname: helper\r\ndescription: Helps.  \r\n".encode())
    assert "\ufeff" not in shell(mesh, f"run --file {goal}").out
    assert "declares the role helper" in shell(mesh, f"serve --check {agent}").out
