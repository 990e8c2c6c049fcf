"""python -m tests.bench.languages: the pipeline with agents in Go, TypeScript and Java, beside Python's in the same rounds.

Each language has a mesh of its own with three agents in a row that echo: the same program as in chaos (`echo` of the
conformance subjects). CPU is user and system time of the agents, per task; memory is private memory of an agent that has
registered and done nothing (USS), and after the load. Figures are medians over the rounds."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console
from rich.table import Table

from tests.bench import load
from tests.bench.processes import ROLES, Processes
from tests.bench.usage import cpu_seconds
from tests.interop.builds import GO_SDK, JAVA_SDK, TYPESCRIPT_SDK

RUNS: Final = {1: 200, 64: 1500}
"""The runs of a measurement by how many are under way at a time."""

SETTLED_AFTER: Final = 2.0
"""Seconds after which an agent that has registered is idle."""


def commands() -> dict[str, list[str]]:
    """Returns the command of the echo program in each language but Python. Builds what is not built."""
    return {
        "Go": [str(GO_SDK.run()), "echo"],
        "TypeScript": ["node", str(TYPESCRIPT_SDK.run()), "echo"],
        "Java": [str(JAVA_SDK.run()), "echo"],
    }


def private_megabytes(pid: int) -> float:
    """Returns the private memory of a process in MB, clean and dirty."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1000


class Members:
    """A mesh whose three agents are in one language."""

    def __init__(self, processes: Processes, command: list[str] | None) -> None:
        registry = processes.start("archon_services.registry", ARCHON_ETCD="memory")
        self.agents = [
            processes.pids[self._agent(processes, command, role, depends_on, registry)] for role, depends_on in ROLES
        ]
        self.orchestrator = processes.orchestrator(registry, "normal")

    def _agent(
        self, processes: Processes, command: list[str] | None, role: str, depends_on: list[str], registry: str
    ) -> str:
        environment = {
            "ECHO_ROLE": role,
            "ECHO_DELAY": "0",
            "ECHO_LEDGER": "",
            "ARCHON_REGISTRY": registry,
            "ARCHON_PORT": "0",
            "ARCHON_DEPENDS_ON": ",".join(depends_on),
            "ARCHON_MAX_TASKS": "256",
            "ARCHON_LOG_LEVEL": "warning",
        }
        if command is None:
            return processes.start("tests.fixtures.echo_agent", **environment)
        return processes.command(command, **environment)

    def memory(self) -> float:
        """Returns the private memory of an agent in MB, the mean of the three."""
        return statistics.mean(private_megabytes(pid) for pid in self.agents)

    def cpu(self) -> float:
        """Returns the seconds of processor time of all agents so far."""
        return sum(cpu_seconds(pid) for pid in self.agents)


def measure(rounds: int, scale: float) -> Mapping[str, Mapping[str, list[float]]]:
    """Returns the figures of each language by name, one for each round."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        members = {}
        for language, command in {"Python": None, **commands()}.items():
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="archon-bench-")))
            members[language] = Members(stack.enter_context(Processes(home)), command)
        time.sleep(SETTLED_AFTER)
        for language, mesh in members.items():
            figures[language]["idle MB"].append(mesh.memory())
        for number in range(rounds + 1):
            for language, mesh in members.items():
                for concurrency, runs in RUNS.items():
                    count, before = max(10, int(runs * scale)), mesh.cpu()
                    measured = uvloop.run(load.unary(mesh.orchestrator, count, concurrency))
                    if not number:
                        continue  # the first round warms up
                    spent = (mesh.cpu() - before) / (count * len(ROLES)) * 1e6
                    if concurrency == 1:
                        figures[language]["p50 ms"].append(measured.p50 * 1e3)
                    else:
                        figures[language]["runs/s"].append(measured.rate)
                        figures[language]["us/task"].append(spent)
        for language, mesh in members.items():
            figures[language]["MB after"].append(mesh.memory())
    return figures


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="tests.bench.languages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of runs")
    options = parser.parse_args()
    figures = measure(options.rounds, options.scale)
    names = ("p50 ms", "runs/s", "us/task", "idle MB", "MB after")
    table = Table("agents in", *(f"{name}" for name in names))
    for language, own in figures.items():
        table.add_row(language, *(f"{statistics.median(own[name]):.1f}" for name in names))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
