"""Runs the command line in real processes with real signals, and lists the processes that it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from archon_services.local_mesh import Home, MeshState, live_state
from tests.fixtures.fork_server import fork_server
from tests.fixtures.ports import free_ports

PATIENCE = 60.0
ARCHON = (sys.executable, "-c", "from archon_services.cli.main import main; main()")
STARTERS = ((), ("up",), ("demo",), ("serve",))
"""The commands that start processes of their own accord, and `archon` alone."""
_HANDLE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def error_lines(self) -> list[str]:
        """The lines of standard error."""
        return self.err.splitlines()


class Terminal:
    """Runs `archon` with its own ARCHON_HOME, and without other variables of Archon unless given."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        clean = {
            key: value for key, value in os.environ.items() if not key.startswith(("ARCHON_", "OPENAI_", "ANTHROPIC_"))
        }
        self.environment = {**clean, "ARCHON_HOME": str(home), **environment}
        self.usual_ports = False
        """Whether `archon up` takes the ports of its defaults, which other meshes on this machine may want too."""

    def archon(self, *arguments: str, stdin: str = "") -> Result:
        """Runs a command to its end: those that start processes in a Python of their own, the others in a fork."""
        if arguments[:1] in STARTERS:
            process = subprocess.run(
                self._command(*arguments),
                env=self.environment,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        else:
            process = fork_server.run("archon_services.cli", arguments, self.environment, stdin, PATIENCE)
        assert "Traceback" not in process.stderr + process.stdout
        assert "\x1b" not in process.stderr + process.stdout, "control codes without a terminal"
        return Result(process.returncode, process.stdout, process.stderr)

    def start(self, *arguments: str) -> Running:
        """Starts a command in the background."""
        return Running(
            subprocess.Popen(
                _with_ctrl_c(self._command(*arguments)),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )

    def _command(self, *arguments: str) -> list[str]:
        """Names a free port for each service of `archon up`, unless the test names one itself."""
        command = [*ARCHON, *arguments]
        if arguments[:1] == ("up",) and "--port" not in arguments and not self.usual_ports:
            services = ("orchestrator", "registry", "memory")
            for service, port in zip(services, free_ports(len(services)), strict=True):
                command += ["--port", f"{service}={port}"]
        return command

    def state(self) -> MeshState:
        """Returns the state of the running mesh."""
        state = live_state(Home(self.home))
        assert state is not None, f"no mesh is running in {self.home}"
        return state

    def pid(self, name: str) -> int:
        """Returns the id of a process of the mesh."""
        return self.state().process(name).pid

    def processes(self) -> list[str]:
        """Returns the commands of all processes with this ARCHON_HOME, whatever their parent is."""
        commands = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ARCHON_HOME") == str(self.home) and process.status() != "zombie":
                    commands.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return commands


class Running:
    """A command in the background, and its output so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.text = ""

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def until(self, text: str, times: int = 1, *, instead: str = "") -> None:
        """Reads the output until it contains `text` `times` times, or `instead` if that is set."""
        assert self._process.stdout is not None
        while self.text.count(text) < times and not (instead and instead in self.text):
            line = self._process.stdout.readline()
            assert line, f"ended without {text!r}:\n{self.text}"
            self.text += line

    def interrupt(self, signum: signal.Signals = signal.SIGINT) -> None:
        """Sends Ctrl-C, or another signal."""
        self._process.send_signal(signum)

    def end(self, within: float = PATIENCE) -> int:
        """Waits for the end of the command; returns the exit code."""
        self.text += self._process.communicate(timeout=within)[0]
        return self._process.returncode


def _with_ctrl_c(command: list[str]) -> list[str]:
    """The command with the default handler of SIGINT, also if the shell that started the tests makes them ignore it.
    Not by an argument of Popen: with it it forks this process, and threads of gRPC do not survive that."""
    python, flag, program, *arguments = command
    return [python, flag, _HANDLE_CTRL_C + program, *arguments]
