"""A shell in which a test runs the commands of a page, each where the last one left it."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.terminal import ARCHON, PATIENCE, Terminal
from tests.fixtures.ports import free_ports


class Shell:
    """A shell of a user: its commands run one block after the other, each in the folder that the last one left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "clone"
        self._folder.mkdir()
        self.second: subprocess.Popen[bytes] | None = None
        programs = folder / "programs"
        programs.mkdir()
        self._where = programs / "where"
        services = ("orchestrator", "registry", "memory")
        ports = " ".join(f"--port {name}={port}" for name, port in zip(services, free_ports(3), strict=True))
        archon = programs / "archon"
        archon.write_text(f'#!/bin/sh\n[ "$1" = up ] && set -- "$@" {ports}\nexec {shlex.join(ARCHON)} "$@"\n')
        archon.chmod(0o755)
        self._environment = dict(Terminal(folder).environment)
        del self._environment["ARCHON_HOME"]
        self._environment["COLUMNS"] = "80"
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
