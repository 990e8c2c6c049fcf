"""Every command of docs/tutorial.md runs in order, over real processes, and prints what the page shows; so does the
first command of the README.

The environment of step 1 is that of the tests. Ports differ from those of a user: other tests run meshes, too.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from archon_services.local_mesh.ports import free_port
from tests.e2e.terminal import ARCHON, PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
STEP = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
FOREGROUND = "archon serve estimator.yaml\n"
"""The command of the second terminal."""

GRAPH = "archon graph\n"
"""Repeated until it shows the agent, which takes a moment to join."""

DOWN = "archon down\n"

VARYING = (
    (re.compile(r"\b[0-9a-f]{12,32}\b"), "ID"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|m)\b"), "TIME"),
    (re.compile(r"\S*/library/"), ""),
    (re.compile(r"~[\d,]+"), "TOKENS"),
    (re.compile(r" +"), " "),
)
"""What differs between two runs: ids, times, the folder, and the width of columns, which follows from these; and the
estimates of tokens, which each change of a prompt changes."""

SKIP = "..."


@dataclass(frozen=True)
class Step:
    """A block of commands, and the output that the page shows; empty if it shows none."""

    commands: str
    shown: str


def steps(text: str) -> list[Step]:
    return [Step(match[1], match[2] or "") for match in STEP.finditer(text)]


def constant(text: str) -> str:
    """Replaces what differs between two runs."""
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def matches(shown: str, printed: str) -> bool:
    """Returns whether the output is what is shown, with any lines in the place of a line `...`."""
    parts = re.split(rf"^{re.escape(SKIP)}$", constant(shown), flags=re.M)
    pattern = r"(?s:.*)".join(re.escape(part.strip("\n")) for part in parts)
    return re.fullmatch(pattern, constant(printed).strip("\n")) is not None


class Shell:
    """A shell of a user: its commands run one block after the other, each in the folder that the last one left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "clone"
        self._folder.mkdir()
        self.second: subprocess.Popen[bytes] | None = None
        programs = folder / "programs"
        programs.mkdir()
        self._where = programs / "where"
        taken: set[int] = set()
        ports = " ".join(f"--port {name}={free_port(taken)}" for name in ("orchestrator", "registry", "memory"))
        archon = programs / "archon"
        archon.write_text(f'#!/bin/sh\n[ "$1" = up ] && set -- "$@" {ports}\nexec {shlex.join(ARCHON)} "$@"\n')
        archon.chmod(0o755)
        self._environment = dict(Terminal(folder).environment)
        del self._environment["ARCHON_HOME"]
        self._environment["PATH"] = f"{programs}:{Path(sys.executable).parent}:{self._environment['PATH']}"

    def run(self, commands: str) -> str:
        """Runs commands to their end and returns their output. Raises AssertionError if one fails."""
        done = subprocess.run(
            ["bash", "-ec", f"{commands}\npwd > {shlex.quote(str(self._where))}"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        self._folder = Path(self._where.read_text().strip())
        return done.stdout

    def start(self, command: str) -> None:
        """Starts a command that stays in the foreground of a second terminal."""
        self.second = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        """Ends the command of the second terminal, and holds that it drains."""
        assert self.second is not None
        self.second.send_signal(signal.SIGTERM)
        assert self.second.wait(PATIENCE) == 0

    def close(self) -> None:
        """Kills what a failed test has left."""
        if self.second is not None and self.second.poll() is None:
            self.second.kill()
            self.second.wait(PATIENCE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.close()
        home = tmp_path / "library" / ".archon"
        terminal = Terminal(home)
        terminal.archon("down")
        assert not terminal.processes()


def prints(shell: Shell, step: Step) -> bool:
    return matches(step.shown, shell.run(step.commands))


def test_the_tutorial_prints_what_it_shows(shell: Shell) -> None:
    for step in steps(PAGE.read_text()):
        if step.commands == FOREGROUND:
            shell.start(step.commands)
        elif step.commands == GRAPH:
            wait_until(partial(prints, shell, step), PATIENCE)
        else:
            if step.commands == DOWN:
                shell.stop()
            printed = shell.run(step.commands)
            assert not step.shown or matches(step.shown, printed), f"{step.commands}\n{printed}"


def test_the_first_command_of_the_readme_prints_what_it_shows(shell: Shell) -> None:
    picture = re.search(r"^```text\n\$ (archon run [^\n]*)\n(.*?)^```\n", README.read_text(), re.M | re.S)
    assert picture is not None
    printed = shell.run(f"{picture[1]} 2>&1")
    assert matches(picture[2], printed), printed


def test_the_readme_is_short() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) < 200
    assert "make demo" in "\n".join(lines[:45])


def test_the_tutorial_has_steps_with_and_without_output() -> None:
    commands = [step.commands for step in steps(PAGE.read_text())]
    assert len(commands) > 10
    assert {FOREGROUND, GRAPH, DOWN} <= set(commands)
    assert PAGE.read_text().count("```sh\n") == len(commands)


def test_output_that_differs_from_the_page_is_noticed() -> None:
    shown = "Plan\n...\nrole  0.02 s  a-0123456789ab\n"
    assert matches(shown, "Plan\n\n1. Write\nrole   1.20 s  a-ba9876543210\n")
    assert not matches(shown, "Plan\nrole 0.02 s b-0123456789ab\n")
    assert not matches(shown, "A Plan\n...\nrole 0.02 s a-0123456789ab\n")
    assert not matches("one\n", "one\ntwo\n")
