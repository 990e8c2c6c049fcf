"""The command line as a person has it: real processes, real signals, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from archon_services.local_mesh import Home, MeshState, live_state
from archon_services.local_mesh.ports import free_port

PATIENCE = 60.0
ARCHON = (sys.executable, "-c", "from archon_services.cli.main import main; main()")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        """What it said on standard error."""
        return self.err.splitlines()


class Terminal:
    """Runs `archon` with an ARCHON_HOME of its own; nothing else of Archon's is in its environment."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("ARCHON_", "OPENAI_"))}
        self.environment = {**clean, "ARCHON_HOME": str(home), **environment}
        self.usual_ports = False
        """Whether `archon up` takes the ports of its defaults, which other meshes on this machine may want too."""

    def archon(self, *arguments: str, stdin: str = "") -> Done:
        """Runs a command to its end."""
        done = subprocess.run(
            self._command(*arguments),
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert "Traceback" not in done.stderr + done.stdout
        assert "\x1b" not in done.stderr + done.stdout, "control codes, though nobody looks at a terminal"
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> Running:
        """Starts a command and returns while it runs."""
        return Running(
            subprocess.Popen(
                self._command(*arguments),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                preexec_fn=_hears_ctrl_c,
            )
        )

    def _command(self, *arguments: str) -> list[str]:
        """Names a free port for each service of `archon up`, unless the test names one itself."""
        command = [*ARCHON, *arguments]
        if arguments[:1] == ("up",) and "--port" not in arguments and not self.usual_ports:
            taken: set[int] = set()
            for service in ("orchestrator", "registry", "memory"):
                command += ["--port", f"{service}={free_port(taken)}"]
        return command

    def state(self) -> MeshState:
        """What is up."""
        state = live_state(Home(self.home))
        assert state is not None, f"no mesh is up in {self.home}"
        return state

    def pid(self, name: str) -> int:
        """The process of a name."""
        return self.state().process(name).pid

    def processes(self) -> list[str]:
        """All processes of this home that live, whoever their parent is."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ARCHON_HOME") == str(self.home) and process.status() != "zombie":
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


class Running:
    """A command under way, with its output as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.text = ""

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def until(self, words: str, times: int = 1) -> None:
        """Reads on until these words were printed so many times."""
        assert self._process.stdout is not None
        while self.text.count(words) < times:
            line = self._process.stdout.readline()
            assert line, f"it ended without {words!r}:\n{self.text}"
            self.text += line

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ctrl-C, or another signal."""
        self._process.send_signal(number)

    def end(self, within: float = PATIENCE) -> int:
        """Waits for its end; returns the exit code."""
        self.text += self._process.communicate(timeout=within)[0]
        return self._process.returncode


def _hears_ctrl_c() -> None:
    """As in a terminal, also where the tests were started by a shell that had them ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
