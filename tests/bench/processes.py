"""Starts and ends what is measured."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from archon.history import AuditKey
from archon.principal import Kind
from archon.private_files import private_file
from tests.bench.security import Security

ROOT = Path(__file__).parents[2]
ROLES = [("first", []), ("second", ["first"]), ("third", ["first", "second"])]
STARTED_WITHIN = 30.0


@dataclass(frozen=True)
class Checkout:
    """A state of the code: its folder and the Python that runs it."""

    root: Path = ROOT
    python: str = sys.executable

    @staticmethod
    def at(folder: Path) -> Checkout:
        """Returns another checkout, which has its own `.venv`."""
        return Checkout(folder.resolve(), str(folder.resolve() / ".venv" / "bin" / "python"))


class NotStarted(SystemExit):
    """A process ended, or announced no address in time; ends the command with its log unless it is caught."""


class Processes:
    """Children that end with the block. Each has to announce its address within so many seconds."""

    def __init__(self, home: Path, checkout: Checkout | None = None, *, within: float = STARTED_WITHIN) -> None:
        self._home = home
        self._within = within
        self._checkout = checkout or Checkout()
        self.pids: dict[str, int] = {}
        """Process ids, by the address that each process serves on."""

        self._stack = ExitStack()
        self._number = 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, *command: str, python: str = "", **environment: str) -> str:
        """Starts `python -m COMMAND`, by the checkout's Python or by another one. Returns the address that it
        announces. Raises NotStarted."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        if python:  # an environment of its own, which must hold nothing of this one
            inherited.pop("PYTHONPATH", None)
        return self._start([python or self._checkout.python, "-m", *command], {**inherited, **environment})

    def program(self, path: Path, **environment: str) -> str:
        """Starts a program. Returns the address that it announces. Raises NotStarted."""
        return self.command([str(path)], **environment)

    def command(self, words: Sequence[str], **environment: str) -> str:
        """Starts a program with arguments. Returns the address that it announces. Raises NotStarted."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        return self._start(list(words), {**inherited, **environment})

    def server(self, path: Path, *arguments: str, address: str, **environment: str) -> str:
        """Starts a program that announces nothing and listens at `address`. Returns the address. Raises NotStarted."""
        command = [str(path), *arguments]
        wait_until = self._spawn(command, {**os.environ, **environment}, self._new_log(), logs_stdout=True)
        self.pids[address] = wait_until(lambda: _listens(address))
        return address

    def _start(self, command: list[str], environment: Mapping[str, str]) -> str:
        log = self._new_log()
        ready = log.with_suffix(".ready")
        told = {"BENCH_READY": str(ready), "ARCHON_READY_FILE": str(ready), "ARCHON_HOME": str(self._home)}
        told["ARCHON_SOCKETS"] = str(self._home / "sockets")  # as `archon up` does
        wait_until = self._spawn(command, {**told, **environment}, log)
        pid = wait_until(lambda: ready.exists() and bool(ready.read_text()))
        address = ready.read_text()
        self.pids[address] = pid
        return address

    def _new_log(self) -> Path:
        self._number += 1
        return self._home / f"{self._number}.log"

    def _spawn(
        self, command: list[str], environment: Mapping[str, str], log: Path, *, logs_stdout: bool = False
    ) -> Callable[[Callable[[], bool]], int]:
        """Starts a process. Returns a function that waits until a condition holds and returns the process id, or raises
        NotStarted."""
        file = self._stack.enter_context(log.open("wb"))
        stdout = file if logs_stdout else None
        process = subprocess.Popen(command, cwd=self._checkout.root, env=environment, stdout=stdout, stderr=file)
        self._stack.callback(_end, process)
        deadline = time.monotonic() + self._within

        def wait_until(is_ready: Callable[[], bool]) -> int:
            while not is_ready():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise NotStarted(f"{' '.join(command)} did not start: {log.read_text()[-1000:]}")
                time.sleep(0.01)
            return process.pid

        return wait_until

    def floor(self) -> tuple[str, list[str]]:
        """Returns the addresses of the orchestrator that is written by hand, and of its agents."""
        agents = [self.start("tests.bench.peers", "floor-agent") for _ in ROLES]
        return self.start("tests.bench.peers", "floor-orchestrator", *agents), agents

    def mesh(self) -> str:
        """Starts a registry and three agents in a row. Returns the registry's address."""
        return self.members()[0]

    def members(self, **environment: str) -> tuple[str, list[str]]:
        """Starts a registry and three agents in a row. Returns the addresses of the registry and of the agents."""
        return self.secured_members(None, environment)

    def secured_members(
        self, security: Security | None, environment: Mapping[str, str] | None = None
    ) -> tuple[str, list[str]]:
        """As `members`, with the credentials of each."""

        def of(kind: Kind, name: str) -> dict[str, str]:
            return {**(environment or {}), **(security.environment(kind, name) if security is not None else {})}

        registry = self.start("archon_services.registry", ARCHON_ETCD="memory", **of(Kind.SERVICE, "registry"))
        return registry, [
            self.start(
                "tests.bench.peers", "agent", role, *depends_on, ARCHON_REGISTRY=registry, **of(Kind.AGENT, role)
            )
            for role, depends_on in ROLES
        ]

    def go_members(self) -> tuple[str, list[str]]:
        """Starts a registry and three agents in Go in a row. Returns the addresses of the registry and of the agents."""
        program = ROOT / ".tools" / "interop" / "go" / "agent"
        if not program.exists():
            raise NotStarted(f"{program} is not there: run `make interop`")
        registry = self.start("archon_services.registry", ARCHON_ETCD="memory")
        return registry, [
            self.program(
                program,
                ARCHON_REGISTRY=registry,
                ARCHON_PORT="0",
                ARCHON_ROLE=role,
                INTEROP_DEPENDS_ON=" ".join(depends_on),
                INTEROP_ANSWER="1024",
                INTEROP_MAX_TASKS="256",
            )
            for role, depends_on in ROLES
        ]

    def orchestrator(self, registry: str, journal: str, *, suffix: str = "", **environment: str) -> str:
        """Starts an orchestrator whose journal is `memory`, `normal`, `full`, or at the address of a database. The
        file of `normal` and `full` is `journal_file`, with a `suffix` for another one. Returns its address."""
        in_file = journal in ("normal", "full")
        path = f"{self.journal_file(journal)}{suffix}" if in_file else journal
        sync = journal if in_file else "full"
        settings = {"ARCHON_REGISTRY": registry, "ARCHON_MEMORY": "", "ARCHON_LOG_LEVEL": "warning", **environment}
        settings["ARCHON_AUDIT_KEY"] = str(self._audit_key())  # as `archon up` does
        return self.start("archon_services.orchestrator", ARCHON_JOURNAL=path, ARCHON_JOURNAL_SYNC=sync, **settings)

    def _audit_key(self) -> Path:
        """Returns the file of the key that seals the histories of runs."""
        path = self._home / "audit-key.pem"
        if not path.exists():
            private_file(path)
            path.write_bytes(AuditKey.generate().pem)
        return path

    def journal_file(self, journal: str) -> Path:
        """Returns the file of an orchestrator whose journal is `normal` or `full`."""
        return self._home / f"{journal}.db"


def _listens(address: str) -> bool:
    """Returns whether something accepts connections at an address."""
    host, _, port = address.rpartition(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
