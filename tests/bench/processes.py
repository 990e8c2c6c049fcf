"""Starts and ends what is measured."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROLES = [("first", []), ("second", ["first"]), ("third", ["first", "second"])]
STARTED_WITHIN = 30.0


class Processes:
    """Children that end with the block."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stack = ExitStack()
        self._number = 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, *command: str, **environment: str) -> str:
        """`python -m COMMAND`; its address."""
        self._number += 1
        ready = self._home / f"{self._number}.ready"
        log = (self._home / f"{self._number}.log").open("wb")
        self._stack.callback(log.close)
        told = {"BENCH_READY": str(ready), "ARCHON_READY_FILE": str(ready), "ARCHON_HOME": str(self._home)}
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env={**inherited, **told, **environment}, stderr=log
        )
        self._stack.callback(_end, process)
        deadline = time.monotonic() + STARTED_WITHIN
        while not ready.exists() or not ready.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{' '.join(command)} didn't start: {Path(log.name).read_text()[-1000:]}")
            time.sleep(0.01)
        return ready.read_text()

    def floor(self) -> str:
        """The address of the orchestrator that is written by hand."""
        agents = [self.start("tests.bench.peers", "floor-agent") for _ in ROLES]
        return self.start("tests.bench.peers", "floor-orchestrator", *agents)

    def mesh(self) -> str:
        """A registry and three agents in a row; the registry's address."""
        registry = self.start("archon_services.registry", ARCHON_ETCD="memory")
        for role, depends_on in ROLES:
            self.start("tests.bench.peers", "agent", role, *depends_on, ARCHON_REGISTRY=registry)
        return registry

    def orchestrator(self, registry: str, journal: str) -> str:
        """One whose journal is `memory`, `normal`, `full`, or at the address of a database."""
        in_file = journal in ("normal", "full")
        path = str(self._home / f"{journal}.db") if in_file else journal
        sync = journal if in_file else "full"
        environment = {"ARCHON_REGISTRY": registry, "ARCHON_MEMORY": "", "ARCHON_LOG_LEVEL": "warning"}
        return self.start("archon_services.orchestrator", ARCHON_JOURNAL=path, ARCHON_JOURNAL_SYNC=sync, **environment)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
