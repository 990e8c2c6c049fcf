"""Commands whose output cannot be written, or whose current directory is gone: one sentence and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.variants import one_in

COMMANDS = (
    ["--version"],
    ["--help"],
    ["context", "list"],
    ["chat", "x.yaml"],
    ["workflow", "show", "w.yaml"],
)
LESS_OFTEN = (["up", "--detach"], ["workflow", "list"], ["run", "hello"])
PROGRAM = "import sys; sys.argv[0] = 'archon'; from archon_services.cli.main import main; main()"


def archon(folder: Path, arguments: list[str], redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command in a shell, in a process of its own: its streams are those of the system."""
    shell = f'"$@" {redirection}'
    command = ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", PROGRAM, *arguments]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "ARCHON_HOME": str(folder / "home")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, input="hello\n", timeout=60, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.yaml").write_text("name: x\nmodel: offline\n")
    (tmp_path / "w.yaml").write_text("name: w\nsteps: [{task: t}]\n")
    return tmp_path


@pytest.mark.parametrize("arguments", one_in(3, COMMANDS), ids=str)
def test_a_full_device_is_one_sentence(folder: Path, arguments: list[str]) -> None:
    done = archon(folder, arguments, "> /dev/full")
    assert (done.returncode, done.stderr.strip()) == (1, "error: cannot write the output: No space left on device")


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    done = archon(folder, ["--help"], "| :")
    assert done.stderr == ""


@pytest.mark.parametrize("redirection", one_in(3, ["<&- >&- 2>&-", "<&-", "2> /dev/full"]))
def test_closed_streams_are_no_error(folder: Path, redirection: str) -> None:
    done = archon(folder, ["context", "list"], redirection)
    assert (done.returncode, done.stderr) == (0, "")
    assert archon(folder, ["context", "use", "none"], redirection).returncode in (1, 2, 4)


@pytest.mark.parametrize(
    "arguments",
    [["up"], ["new", "agent", "x"], *(pytest.param(each, marks=pytest.mark.slow) for each in LESS_OFTEN)],
    ids=str,
)
def test_a_removed_directory_is_one_sentence(folder: Path, arguments: list[str]) -> None:
    gone = folder / "gone"
    gone.mkdir()
    shell = 'cd gone; rmdir ../gone; exec "$@"'
    command = ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", PROGRAM, *arguments]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "ARCHON_HOME": str(folder / "home")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert not (folder / "home").exists()
