"""A mesh of processes over PostgreSQL and etcd whose processes are upgraded one after the other, with a load on it."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import until
from tests.upgrade.release import Release
from tests.upgrade.release_process import ReleaseProcess

HERE: Final = Path(__file__).parent
ROLES: Final[Mapping[str, str]] = {"requirements": "", "designer": "requirements", "implementer": "designer"}
"""The roles of the runs, and the role that each depends on."""

DELAY: Final = 0.3
"""Seconds that a task takes."""

INTERVAL: Final = 0.25
"""Seconds between two submits of a load."""

COMPLETED, CANCELED = 3, 5
PROGRESS_WITHIN: Final = 60.0


def right_end(goal: str) -> tuple[int, str]:
    """Returns the state in which a run with this goal ends, and its answer."""
    if goal.startswith("cancel"):
        return CANCELED, ""
    return COMPLETED, f"implementer(designer(requirements({goal}{'!' if goal.startswith('ask') else ''})))"


class Load:
    """A client process that submits runs, and the lines that it has written."""

    def __init__(self, name: str, process: ReleaseProcess, lines: Path) -> None:
        self.name, self.process, self._lines = name, process, lines

    def lines(self, key: str) -> list[dict[str, Any]]:
        """Returns the complete lines with a key."""
        text = self._lines.read_text() if self._lines.exists() else ""
        return [line for line in map(json.loads, text[: text.rfind("\n") + 1].splitlines()) if key in line]

    def check(self) -> int:
        """Checks that every run has ended with its right answer and that its watcher has seen each event once. Returns
        the number of runs."""
        assert self.lines("failed") == []
        submitted = {line["submitted"]: line["run_id"] for line in self.lines("submitted")}
        ended = {line["ended"]: (line["run_id"], line["state"], line["answer"]) for line in self.lines("ended")}
        assert ended == {name: (run_id, *right_end(name)) for name, run_id in submitted.items()}
        seen: dict[str, list[int]] = defaultdict(list)
        for line in self.lines("event"):
            seen[line["event"]].append(line["seq"])
        assert seen.keys() == set(submitted.values())
        for run_id, numbers in seen.items():
            assert numbers == list(range(1, len(numbers) + 1)), f"the watcher of run {run_id} saw {numbers}"
        return len(ended)


class RollingMesh:
    """One registry, one memory service, two orchestrators, the agents of ROLES, and loads."""

    def __init__(self, home: Path, etcd: str, dsn: str) -> None:
        self._home = home
        ports = iter(free_ports(4))
        prefix = f"/archon/test-{uuid.uuid4().hex}"
        self.registry = self._service("registry", next(ports), ARCHON_ETCD=etcd, ARCHON_PREFIX=prefix)
        addresses = {"ARCHON_REGISTRY": self.registry.address}
        self.memory = self._service("memory", next(ports), ARCHON_DB=dsn, **addresses)
        addresses["ARCHON_MEMORY"] = self.memory.address
        self.first, self.second = (
            self._service("orchestrator", next(ports), number, ARCHON_JOURNAL=dsn, **addresses)
            for number in ("-1", "-2")
        )
        self.agents: dict[str, ReleaseProcess] = {}
        self.loads: list[Load] = []
        self._processes = [self.registry, self.memory, self.first, self.second]

    def _service(self, module: str, port: int, suffix: str = "", **environment: str) -> ReleaseProcess:
        arguments = ("-m", f"archon_services.{module}")
        return ReleaseProcess(f"{module}{suffix}", self._home, port, *arguments, **environment)

    async def start(self, release: Release) -> None:
        """Starts all services and an agent of each role."""
        await self.registry.start(release)
        await self.memory.start(release)
        await asyncio.gather(self.first.start(release), self.second.start(release))
        for role in ROLES:
            self.agents[role] = await self.start_agent(role, release)

    async def start_agent(self, role: str, release: Release) -> ReleaseProcess:
        """Starts one more instance of a role."""
        [port] = free_ports(1)
        agent = ReleaseProcess(
            f"{role}-{port}",
            self._home,
            port,
            str(HERE / "role_agent.py"),
            UPGRADE_ROLE=role,
            UPGRADE_DELAY=str(DELAY),
            ARCHON_REGISTRY=self.registry.address,
            ARCHON_DEPENDS_ON=ROLES[role],
        )
        self._processes.append(agent)
        await agent.start(release)
        return agent

    async def upgrade_agent(self, role: str, release: Release) -> None:
        """Starts an instance of the release, then stops the one of the release before, as a Deployment does."""
        before = self.agents[role]
        self.agents[role] = await self.start_agent(role, release)
        await before.stop()

    async def start_load(self, name: str, release: Release) -> Load:
        """Starts a client that submits runs to both orchestrators."""
        lines = self._home / f"{name}.jsonl"
        process = ReleaseProcess(
            name,
            self._home,
            0,
            str(HERE / "load.py"),
            UPGRADE_LOAD=name,
            UPGRADE_INTERVAL=str(INTERVAL),
            UPGRADE_ROLES=",".join(ROLES),
            UPGRADE_ORCHESTRATORS=f"{self.first.address},{self.second.address}",
            UPGRADE_LINES=str(lines),
        )
        self._processes.append(process)
        await process.start(release)
        load = Load(name, process, lines)
        self.loads.append(load)
        return load

    async def progress(self, load: Load, runs: int = 3) -> None:
        """Waits until so many runs have ended that are submitted from now on."""
        earlier = {line["submitted"] for line in load.lines("submitted")}
        await until(
            lambda: len({line["ended"] for line in load.lines("ended")} - earlier) >= runs, within=PROGRESS_WITHIN
        )

    def errors(self) -> list[str]:
        """Returns the lines of all logs that report an error."""
        return [
            f"{process.name}: {line}"
            for process in self._processes
            if process.log.exists()
            for line in process.log.read_text().splitlines()
            if re.search(r'"level": "(error|critical)"|^Traceback', line)
        ]

    def kill(self) -> None:
        """Ends all processes. Idempotent."""
        for process in reversed(self._processes):
            process.kill()


@asynccontextmanager
async def rolling_mesh(home: Path, etcd: str, dsn: str, release: Release) -> AsyncIterator[RollingMesh]:
    """Runs a mesh of a release until the block ends."""
    mesh = RollingMesh(home, etcd, dsn)
    try:
        await mesh.start(release)
        yield mesh
    finally:
        mesh.kill()
