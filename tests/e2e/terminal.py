"""Runs the command line: in this process, in a fork, or as a program of its own; lists the processes that it leaves."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import psutil
import pytest

from archon.security.credentials import TokenFile, Tokens
from archon_services.local_mesh import Home, MeshState, live_state
from tests.fixtures.command_line import main
from tests.fixtures.fork_server import fork_server
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import wait_until

PATIENCE = 60.0
ARCHON = (sys.executable, "-c", "from archon_services.cli.main import main; main()")
COMMAND = "tests.e2e.command"
STARTERS = ("up", "demo", "serve")
"""The commands that start processes: never in this one, which would become their parent."""
_HANDLE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "

Reply = str | Callable[[], str]


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

    @property
    def credentials(self) -> Tokens:
        """What a client of the mesh in the home presents."""
        return Tokens(TokenFile(self.home / "token"))

    def archon(self, *arguments: str, stdin: str = "") -> Result:
        """Runs a command to its end: in this process if it can, else in a fork. It cannot if it starts processes, or
        beside a running event loop."""
        own = threading.current_thread() is threading.main_thread() and not _loop_runs()
        if arguments[:1] in [(name,) for name in STARTERS] or not own:
            return self.fork(*arguments, stdin=stdin)
        return _checked(*_run_here(arguments, self.environment, stdin))

    def fork(self, *arguments: str, stdin: str = "") -> Result:
        """Runs a command to its end in a fork."""
        process = fork_server.run(COMMAND, self._with_ports(arguments), self.environment, stdin, PATIENCE)
        return _checked(process.returncode, process.stdout, process.stderr)

    def program(self, *arguments: str, stdin: str = "") -> Result:
        """Runs a command to its end as users do, in a Python of its own."""
        process = subprocess.run(
            [*ARCHON, *self._with_ports(arguments)],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return _checked(process.returncode, process.stdout, process.stderr)

    @contextmanager
    def start(self, *arguments: str, program: bool = False, stdin: Path = Path(os.devnull)) -> Iterator[Running]:
        """Runs a command in the background during the block, in a fork, or as a `program`; kills it at the end."""
        arguments = tuple(self._with_ports(arguments))
        with TemporaryDirectory(prefix="archon-command-") as folder, ExitStack() as stack:
            output = Path(folder) / "output"
            output.touch()
            process: Process
            if program:
                python, flag, code = ARCHON
                file = stack.enter_context(output.open("a"))
                process = subprocess.Popen(
                    [python, flag, _HANDLE_CTRL_C + code, *arguments],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            else:
                process = fork_server.fork(COMMAND, arguments, self.environment, output, stdin=stdin)
            running = Running(process, output)
            try:
                yield running
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE)
                running.keep()

    def on_screen(
        self, *arguments: str, columns: int, typing: Mapping[str, Reply] | None = None, program: bool = False
    ) -> tuple[int, str]:
        """Runs a command on a pseudo-terminal; returns the exit code and what it wrote, control codes included.

        `typing` maps a text of the output to the input that follows it, or to a function that returns the input.
        """
        environment = {**self.environment, "TERM": "xterm-256color", "COLUMNS": str(columns)}
        with Screen(arguments, environment, program=program) as screen:
            for text, reply in (typing or {}).items():
                screen.until(text)
                screen.type(reply() if callable(reply) else reply)
            code = screen.end()
            return code, screen.text

    def _with_ports(self, arguments: Sequence[str]) -> list[str]:
        """Names a free port for each service of `archon up`, unless the test names one itself."""
        command = [*arguments]
        if command[:1] == ["up"] and "--port" not in arguments and not self.usual_ports:
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


class Process(Protocol):
    """A program or a fork."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


class Running:
    """A command in the background, and its output so far."""

    def __init__(self, process: Process, output: Path) -> None:
        self._process = process
        self._output = output
        self._kept: str | None = None

    @property
    def text(self) -> str:
        """The output so far, whole lines."""
        if self._kept is not None:
            return self._kept
        text = self._output.read_text()
        return text[: text.rfind("\n") + 1]

    def keep(self) -> None:
        """Keeps the output, because the file will be removed."""
        self._kept = self._output.read_text()

    def until(self, text: str, times: int = 1, *, instead: str = "") -> None:
        """Waits until the output contains `text` `times` times, or `instead` if that is set."""

        def seen() -> bool:
            ended = self._process.poll() is not None
            found = self.text.count(text) >= times or bool(instead and instead in self.text)
            assert found or not ended, f"ended without {text!r}:\n{self.text}"
            return found

        wait_until(seen, PATIENCE)

    def interrupt(self, signum: signal.Signals = signal.SIGINT) -> None:
        """Sends Ctrl-C, or another signal."""
        self._process.send_signal(signum)

    def end(self, within: float = PATIENCE) -> int:
        """Waits for the end of the command; returns the exit code."""
        return self._process.wait(within)


class Screen:
    """A command on a pseudo-terminal of its own, and what it wrote so far."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], *, program: bool = False) -> None:
        self._ours, theirs = pty.openpty()
        try:
            self._process: Process
            if program:
                self._process = subprocess.Popen(
                    [*ARCHON, *arguments],
                    env=dict(environment),
                    stdin=theirs,
                    stdout=theirs,
                    stderr=theirs,
                    start_new_session=True,
                )
            else:
                tty = Path(os.ttyname(theirs))
                self._process = fork_server.fork(COMMAND, arguments, environment, tty, stdin=tty)
        finally:
            os.close(theirs)
        self._written = b""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)
        os.close(self._ours)

    @property
    def text(self) -> str:
        """What it wrote so far."""
        return self._written.decode(errors="replace")

    def until(self, text: str, times: int = 1) -> None:
        """Waits until the command has written `text` `times` times."""
        end = time.monotonic() + PATIENCE
        while self.text.count(text) < times:
            assert time.monotonic() < end and self._read(1.0), f"no {text!r} on the screen:\n{self.text}"

    def type(self, text: str) -> None:
        """Types a text."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Sends SIGINT, as the terminal does for Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def interrupt_at_prompt(self) -> int:
        """Sends SIGINT until the command ends, once a second, and returns the exit code. Python sees a signal that comes
        while readline handles a key at the next key or signal only."""
        end = time.monotonic() + PATIENCE
        while self._process.poll() is None:
            assert time.monotonic() < end, f"Ctrl-C does not end it:\n{self.text}"
            self.interrupt()
            self._read(1.0)
        return self.end()

    def end(self) -> int:
        """Reads to the end of the command and returns the exit code."""
        while self._read(PATIENCE):
            pass
        return self._process.wait(PATIENCE)

    def _read(self, within: float) -> bool:
        """Waits for output and reads it. Returns False at its end."""
        if not select.select([self._ours], [], [], within)[0]:
            return self._process.poll() is None
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # raised by a pseudo-terminal whose other side is closed
            return False
        self._written += chunk
        return bool(chunk)


def _checked(code: int, out: str, err: str) -> Result:
    assert "Traceback" not in err + out
    assert "\x1b" not in err + out, "control codes without a terminal"
    return Result(code, out, err)


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_here(arguments: Sequence[str], environment: Mapping[str, str], stdin: str) -> tuple[int, str, str]:
    """Runs the command line in this process, which has the given variables, arguments, input and output meanwhile.
    Returns exit code, output and errors."""
    with TemporaryDirectory(prefix="archon-command-") as folder, ExitStack() as stack:
        given, written, failed = (Path(folder) / name for name in ("stdin", "stdout", "stderr"))
        given.write_text(stdin)
        out, err = (stack.enter_context(file.open("w", encoding="utf-8")) for file in (written, failed))
        warnings = logging.StreamHandler(err)  # as in a process without a configured log
        warnings.setLevel(logging.WARNING)
        warnings.addFilter(_is_of_this_loop)
        logging.getLogger().addHandler(warnings)
        stack.callback(logging.getLogger().removeHandler, warnings)
        before, argv, input_before = dict(os.environ), sys.argv, sys.stdin
        try:
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["archon", *arguments]
            sys.stdin = stack.enter_context(given.open(encoding="utf-8"))
            with redirect_stdout(out), redirect_stderr(err):
                code = contextvars.copy_context().run(_exit_code)
        finally:
            sys.argv, sys.stdin = argv, input_before
            os.environ.clear()
            os.environ.update(before)
        out.flush()
        err.flush()
        return code, written.read_text(encoding="utf-8"), failed.read_text(encoding="utf-8")


def _is_of_this_loop(record: logging.LogRecord) -> bool:
    """Returns False for the late event of a call of an earlier command: gRPC, which is the process's, passes it to the
    event loop of that command, which is closed. A process of one command has ended by then."""
    error = record.exc_info[1] if record.exc_info else None
    return record.name != "asyncio" or str(error) != "Event loop is closed"


def _exit_code() -> int:
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code or 0
    assert isinstance(code, int)
    return code
