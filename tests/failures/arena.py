"""The mesh of the failure table: two orchestrators on PostgreSQL, a registry on etcd, memory, six agents."""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from archon.api.common.v1 import common_pb2
from archon.client import Client
from tests.failures.load import Load
from tests.failures.table import Row, keep
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.ports import free_ports
from tests.fixtures.services import ServiceProcess
from tests.fixtures.valve import Valve
from tests.fixtures.waiting import eventually

ROLES = {"reader": [], "thinker": ["reader"], "writer": ["reader", "thinker"]}
WORK = 0.25
"""Seconds that an agent works at a task."""

WARM = 1.5
AFTER = 3.0
HEALED_WITHIN = 30.0


class Arena(ProcessMesh):
    """The processes of the failure table. `client` calls the first orchestrator, `other` the second."""

    def __init__(self, home: Path, etcd: str, dsn: str) -> None:
        super().__init__(home, etcd)
        self.dsn = dsn
        self.second: ServiceProcess
        self.other: Client
        self.by_role: dict[str, list[ServiceProcess]] = defaultdict(list)
        self._stack = AsyncExitStack()
        self.valves: list[Valve] = []
        """One valve before each agent; empty if the arena has none."""

    @asynccontextmanager
    async def open(self, *, valves: bool = False, jumping: bool = False) -> AsyncIterator[Arena]:
        """Runs the arena during the block, and ends every process even if one fails to start."""
        try:
            await self._begin(valves=valves, jumping=jumping)
            yield self
        finally:
            await self._end()

    async def _begin(self, *, valves: bool, jumping: bool) -> None:
        """Starts the processes. `valves`: a valve stands before each agent. `jumping`: signals make the first
        orchestrator's clock jump."""
        if jumping:
            self.orchestrator_module = "tests.fixtures.jumping_orchestrator"
        await self.start(ARCHON_JOURNAL=self.dsn)
        self.second = ServiceProcess("archon_services.orchestrator", self.home, **self.orchestrator_environment())
        self.other = Client(await self.second.start())
        for role, upstream in ROLES.items():
            for _ in range(2):
                more = await self._behind_a_valve() if valves else {}
                agent = await self.agent_process(
                    role, *upstream, delay=WORK, module="tests.fixtures.moody_agent", **more
                )
                self.by_role[role].append(agent)

    async def _behind_a_valve(self) -> dict[str, str]:
        valve = await self._stack.enter_async_context(Valve())
        (valve.server_port,) = free_ports(1)
        self.valves.append(valve)
        return {"ARCHON_PORT": str(valve.server_port), "ARCHON_ADVERTISE": f"127.0.0.1:{valve.port}"}

    def orchestrator_environment(self) -> dict[str, str]:
        """Returns the settings of both orchestrators."""
        return {
            "ARCHON_REGISTRY": self.registry.address,
            "ARCHON_MEMORY": self.memory.address,
            "ARCHON_JOURNAL": self.dsn,
        }

    async def at_work(self, agent: ServiceProcess) -> bool:
        """Returns whether an agent has begun a task that it has not ended."""
        return self._noted("begin", agent) > self.ended(agent)

    def ended(self, agent: ServiceProcess) -> int:
        """Returns the number of tasks that an agent has ended."""
        return self._noted("end", agent)

    def _noted(self, verb: str, agent: ServiceProcess) -> int:
        lines = map(str.split, self.ledger.read_text().splitlines())
        return sum((words[0], words[4]) == (verb, str(agent.pid)) for words in lines)

    @property
    def clients(self) -> list[Client]:
        """The clients of both orchestrators."""
        return [self.client, self.other]

    async def _end(self) -> None:
        """Ends every process that was started, frozen or not."""
        processes = [self.registry, *self.processes]
        processes += [getattr(self, name) for name in ("memory", "orchestrator", "second") if hasattr(self, name)]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stack.aclose)
            for name in ("client", "other", "directory"):
                if hasattr(self, name):
                    stack.push_async_callback(getattr(self, name).close)
            for process in processes:
                process.thaw()
                stack.push_async_callback(process.stop)

    @asynccontextmanager
    async def row(self, name: str, order: float, *, all_complete: bool = True) -> AsyncIterator[Strike]:
        """Runs load before, during and after the fault of the block; then checks the runs and writes the row."""
        strike = Strike()
        async with Load(self.clients, list(ROLES)) as load:
            await asyncio.sleep(WARM)
            strike.load = load

            async def both_own_some() -> bool:
                """Returns whether both orchestrators own runs that have just begun: a fault between two waves of runs
                would hit no work."""
                fresh = [c for c in load.open if c.events and time.monotonic() - c.submitted < WORK]
                return len({course.events[0].submitted.owner for course in fresh}) == 2

            await eventually(both_own_some, HEALED_WITHIN)
            yield strike
            affected = [course for course in load.courses if not course.ended or course.ended >= strike.at]
            began = strike.healed or time.monotonic()

            async def through() -> bool:
                new = [course for course in load.courses if course.began > began]
                return all(course.ended for course in affected) and sum(bool(course.ended) for course in new) >= 8

            await eventually(through, HEALED_WITHIN)
            await asyncio.sleep(max(0.0, AFTER - (time.monotonic() - began)))
        lost = strike.lost = check(load, self, all_complete=all_complete)
        before = [course.took for course in load.courses if course.ended < strike.at]
        longest = max(course.took for course in load.courses if course.ended >= strike.at)
        keep(Row(name, order, longest, statistics.median(before or [0.0]), load.fate(), lost))


class Strike:
    """The times of a fault in monotonic seconds: when it began, and when it was healed (0 if it is not healed). After
    the row, `lost` is the number of attempts that were journaled as lost."""

    load: Load

    def __init__(self) -> None:
        self.at = 0.0
        self.healed = 0.0
        self.lost = 0

    def begins(self) -> None:
        """Records that the fault begins now."""
        self.at = time.monotonic()

    def ends(self) -> None:
        """Records that the fault is healed now."""
        self.healed = time.monotonic()


def check(load: Load, arena: Arena, *, all_complete: bool) -> int:
    """Asserts what must hold after every fault; returns the number of attempts that were journaled as lost."""
    assert not load.wrong, load.wrong
    never = [course.run_id for course in load.courses if not course.ended]
    assert not never, f"acknowledged runs that never ended: {never}"
    if all_complete:
        bad = [(c.run_id, c.failure) for c in load.courses if c.state != common_pb2.TASK_STATE_COMPLETED]
        assert not bad, bad
    lost: set[tuple[str, int]] = set()
    for course in load.courses:
        assert [event.seq for event in course.events] == list(range(1, len(course.events) + 1))
        lost |= {
            (event.task.task_id, event.task.attempt)
            for event in course.events
            if event.WhichOneof("event") in ("lost", "rejected")
        }
    finished: dict[str, list[int]] = defaultdict(list)
    mine = {course.run_id for course in load.courses}
    for line in arena.ledger.read_text().splitlines():
        verb, _, task_id, attempt, _ = line.split()
        if verb == "end" and task_id.rpartition(".")[0] in mine:
            finished[task_id].append(int(attempt))
    for task_id, attempts in finished.items():
        assert len(set(attempts)) == len(attempts), f"{task_id}: an attempt was executed twice: {attempts}"
        again = [attempt for attempt in sorted(attempts)[:-1] if (task_id, attempt) not in lost]
        assert not again, f"{task_id} was executed again after attempts {again}, which were not lost"
    return len(lost)


async def hold(seconds: float) -> None:
    """Holds a fault for so long. The duration is part of the fault: the rows of the table name it."""
    await asyncio.sleep(seconds)


def kill(process: ServiceProcess) -> None:
    """Sends SIGKILL and does not wait."""
    process.send(signal.SIGKILL)
