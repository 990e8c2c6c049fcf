"""python -m tests.bench.scale: whether the cost of a run grows with what lies there.

CPU of the orchestrator (user and system) per run of three roles, by SubmitRun with wait at concurrency 64. An
orchestrator with much there (ended runs in its journal, runs under way, idle instances, dead registrations) is measured
against one without it, in interleaved rounds, each with its own registry, journal and agents. A run of many tasks is measured against runs
of three, all of them delegations and the task that makes them; a plan of many steps, 10 wide, against plans of 10, one
plan after another. Figures are medians over the rounds; the changes of the
single rounds stand beside them. What an orchestrator spends at rest counts in the figures per run; it is also shown by
itself, with the change that remains without it. The journal is a SQLite file, by default `normal`: then the speed of the disk does not change how many steps
share a commit.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc, run_pb2
from archon.channel import service_options
from archon.registry import RegistryClient
from tests.bench.drive import GOAL, ROLES, drive
from tests.bench.pipeline import fdatasync_p50
from tests.bench.processes import ROOT, NotStarted, Processes
from tests.bench.scale_agents import WIDTH
from tests.bench.usage import cpu_seconds

CONCURRENCY = 64
REST = 5.0
"""Seconds over which an orchestrator at rest is measured."""

SLICES = 10
"""Parts of a round's measurement."""

SETTLED_WITHIN = 120.0
CHANGE_AIM = "<= 1.10"
LATENCY_AIM = "<= 1.20"
TASK_AIM = "<= 1.50"
SMALL_RUN = 3
"""Tasks of the run that a run of many tasks is compared with."""

SMALL_PLAN = WIDTH
"""Steps of the plan that a plan of many steps is compared with."""

AROUND_PLAN = 2
"""Tasks of a run with a plan that are no steps: the planner makes the plan and combines the results."""

WORKING = common_pb2.TASK_STATE_WORKING
COMPLETED = common_pb2.TASK_STATE_COMPLETED


class NotReached(Exception):
    """What is to be measured does not come about; the message says what."""


@dataclass(frozen=True)
class Subject:
    """An orchestrator that is measured."""

    address: str
    pid: int

    @asynccontextmanager
    async def stub(self) -> AsyncIterator[Any]:
        """Yields a stub of its service."""
        async with grpc.aio.insecure_channel(self.address, options=service_options()) as channel:
            yield orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)


@dataclass(frozen=True)
class Figure:
    """A measurement, for each run or task: microseconds of the orchestrator's CPU, and seconds that passed. `p50` and
    `p95` are latencies of runs in seconds."""

    cpu: float
    elapsed: float
    p50: float
    p95: float

    def without_rest(self, rest: float) -> float:
        """Returns the microseconds without those that an orchestrator spends at rest, in milliseconds per second."""
        return self.cpu - rest * 1e3 * self.elapsed


@dataclass(frozen=True)
class Load:
    """A measurement of `runs` runs of `tasks` tasks, `concurrency` at once. Its figure is per run, or per task if
    `per_task`. Without `roles` a run has the roles of the pipeline."""

    subject: Subject
    runs: int
    tasks: int = len(ROLES)
    concurrency: int = CONCURRENCY
    goal: str = GOAL
    roles: tuple[str, ...] = ()
    per_task: bool = False
    planned: bool = False
    """Whether the tasks are steps of a plan; the figure is per step."""

    async def measure(self, scale: float = 1.0) -> Figure:
        """Makes the runs, or a part of them."""
        runs = max(1, round(self.runs * scale))
        async with self.subject.stub() as stub:

            async def run() -> None:
                request = self.request(self.goal)
                request.wait.seconds = 300
                answer = (await stub.SubmitRun(request)).run
                assert answer.state == COMPLETED, answer.failure or answer.state
                assert len(answer.tasks) == self.tasks + AROUND_PLAN * self.planned, len(answer.tasks)

            before, began = cpu_seconds(self.subject.pid), time.perf_counter()
            measured = await drive(run, runs, self.concurrency)
            used, elapsed = cpu_seconds(self.subject.pid) - before, time.perf_counter() - began
        units = runs * self.tasks if self.per_task else runs
        return Figure(used * 1e6 / units, elapsed / units, measured.p50, measured.p95)

    def request(self, goal: str) -> pb.SubmitRunRequest:
        """Returns the request for a run with this goal."""
        request = submit_request(goal, self.roles)
        if self.planned:
            request.strategy = run_pb2.STRATEGY_PLAN
        return request


@dataclass(frozen=True)
class Comparison:
    """The figures of each round, and milliseconds of CPU per second at rest: without what lies there, and with it."""

    base: list[Figure]
    loaded: list[Figure]
    base_rest: float = 0.0
    loaded_rest: float = 0.0

    def cells(self) -> list[str]:
        """Returns medians, their change, the least and the largest change of a round, the changes of latencies, and what
        is spent at rest."""
        base, loaded = (statistics.median(figure.cpu for figure in side) for side in (self.base, self.loaded))
        changes = sorted(much.cpu / few.cpu for few, much in zip(self.base, self.loaded, strict=True))
        rests = self.base_rest, self.loaded_rest
        net_base, net_loaded = (
            statistics.median(figure.without_rest(rest) for figure in side)
            for side, rest in zip((self.base, self.loaded), rests, strict=True)
        )
        cells = [f"{base:,.0f}", f"{loaded:,.0f}", f"{loaded / base:.2f}", f"{changes[0]:.2f} to {changes[-1]:.2f}"]
        cells.append(" / ".join(f"{self._latency_change(name):.2f}" for name in ("p50", "p95")))
        if any(rests):
            cells += [*(f"{rest:.0f}" for rest in rests), f"{net_loaded / net_base:.2f}"]
        return cells

    def _latency_change(self, name: str) -> float:
        base, loaded = (
            statistics.median(getattr(figure, name) for figure in side) for side in (self.base, self.loaded)
        )
        return float(loaded / base)


def memory_of(subject: Subject) -> int:
    """Returns the resident memory of an orchestrator, in megabytes."""
    return round(psutil.Process(subject.pid).memory_info().rss / 1e6)


def submit_request(goal: str, roles: tuple[str, ...] = ()) -> pb.SubmitRunRequest:
    """Returns a request with an id of its own, as a client sends it."""
    return pb.SubmitRunRequest(goal=[common_pb2.Part(text=goal)], roles=roles, request_id=uuid.uuid4().hex)


async def until(what: str, reached: Callable[[], Awaitable[bool]]) -> None:
    """Returns when `reached` holds; errors count as not yet. Raises NotReached if that takes too long."""
    deadline, problem = time.monotonic() + SETTLED_WITHIN, "not reached"
    while time.monotonic() < deadline:
        try:
            if await reached():
                return
        except Exception as error:  # noqa: BLE001 - it passes, or the time is over
            problem = repr(error)
        await asyncio.sleep(0.1)
    raise NotReached(f"{what}: {problem}")


async def ready(load: Load) -> None:
    """Returns when the orchestrator has sessions with the agents of this load, and its caches are warm."""

    async def one_run() -> bool:
        async with load.subject.stub() as stub:
            request = load.request("1" if load.goal.isdigit() else load.goal)
            request.wait.seconds = 30
            return bool((await stub.SubmitRun(request)).run.state == COMPLETED)

    await until("a run completes", one_run)
    await load.measure(0.25)


async def at_rest(*subjects: Subject) -> list[float]:
    """Returns the milliseconds of CPU per second of orchestrators without load."""
    before = [cpu_seconds(subject.pid) for subject in subjects]
    await asyncio.sleep(REST)
    return [(cpu_seconds(subject.pid) - used) / REST * 1e3 for subject, used in zip(subjects, before, strict=True)]


async def measure_round(base: Load, loaded: Load) -> tuple[Figure, Figure]:
    """Measures both once, a slice of the one and a slice of the other in turn: a core that other work slows down then
    slows down both."""
    slices = min(SLICES, base.runs, loaded.runs)
    figures: list[tuple[Figure, Figure]] = []
    for number in range(slices):
        if number % 2 == 0:
            first = await base.measure(1 / slices)
            figures.append((first, await loaded.measure(1 / slices)))
        else:
            first = await loaded.measure(1 / slices)
            figures.append((await base.measure(1 / slices), first))
    few, much = zip(*figures, strict=True)
    return mean(few), mean(much)


def mean(figures: Sequence[Figure]) -> Figure:
    """Returns the mean of slices of the same size."""
    return Figure(
        *(statistics.fmean(getattr(figure, name) for figure in figures) for name in ("cpu", "elapsed", "p50", "p95"))
    )


async def compare(base: Load, loaded: Load, rounds: int) -> Comparison:
    """Measures both in rounds of interleaved slices."""
    await ready(base)
    await ready(loaded)
    rest = [0.0, 0.0] if base.subject == loaded.subject else await at_rest(base.subject, loaded.subject)
    pairs = [await measure_round(base, loaded) for _ in range(rounds)]
    return Comparison([few for few, _ in pairs], [much for _, much in pairs], *rest)


class Scale:
    """The comparisons, each between orchestrators of their own. `journal` is `normal` or `full`."""

    def __init__(self, home: Path, *, journal: str, rounds: int, runs: int) -> None:
        self._home = home
        self._journal = journal
        self._rounds = rounds
        self._runs = runs

    def ended_runs(self, count: int) -> Comparison:
        """Compares with ended runs in the journal."""
        file, last_run_id = self._file_with_ended_runs(count)
        with self._processes("base") as base, self._processes("ended") as much:
            file.rename(much.journal_file(self._journal))
            loads = self._pipeline(base), self._pipeline(much)
            uvloop.run(until_completed(loads[1].subject, last_run_id))
            return self._compare(*loads)

    def runs_under_way(self, count: int) -> Comparison:
        """Compares with runs under way, whose only role does not answer."""
        room = {"ARCHON_MAX_RUNS": str(count + 1_000)}
        with self._processes("base") as base, self._processes("under-way") as much:
            loads = [self._pipeline(base, **room)]
            registry, _ = much.members()
            much.start("tests.bench.scale_agents", "hold", str(count), ARCHON_REGISTRY=registry)
            loads.append(self._load(much, registry, **room))
            uvloop.run(hold_runs(loads[1].subject, count))
            return self._compare(*loads)

    def idle_instances(self, count: int) -> Comparison:
        """Compares with idle instances of other roles, which join an orchestrator that runs."""
        with self._processes("base") as base, self._processes("idle") as much:
            registry, _ = much.members()
            loads = self._pipeline(base), self._load(much, registry)
            much.start("tests.bench.scale_agents", "idle", str(count), ARCHON_REGISTRY=registry)
            uvloop.run(until_connected(loads[1].subject, registry, count + 3))
            return self._compare(*loads)

    def dead_instances(self, count: int, *, after: float = 0.0) -> Comparison:
        """Compares with registrations whose instances are dead, `after` seconds after they have been made. Half of their
        addresses refuse connections, the others accept them and never answer; a half have the role of agents that
        answer."""
        with self._processes("base") as base, self._processes("dead") as much:
            registry, _ = much.members()
            loads = self._pipeline(base), self._load(much, registry)
            uvloop.run(ready(loads[1]))
            much.start("tests.bench.scale_agents", "dead", str(count), ARCHON_REGISTRY=registry)
            time.sleep(after)
            return self._compare(*loads)

    def many_tasks(self, tasks: int) -> Comparison:
        """Compares a run of many tasks, alone, with runs of three, 64 at once. The figures are per task."""
        with self._processes("tasks") as processes:
            registry = processes.start("archon_services.registry", ARCHON_ETCD="memory")
            for kind in ("worker", "lead"):
                processes.start("tests.bench.scale_agents", kind, ARCHON_REGISTRY=registry)
            subject = self._load(processes, registry).subject
            small_runs = max(CONCURRENCY, self._runs)
            large_runs = max(1, round(small_runs * SMALL_RUN / tasks))
            small, large = (
                Load(subject, runs, size, at_once, str(size - 1), ("lead",), per_task=True)
                for runs, size, at_once in ((small_runs, SMALL_RUN, CONCURRENCY), (large_runs, tasks, 1))
            )
            return self._compare(small, large)

    def planned_steps(self, steps: int) -> Comparison:
        """Compares a plan of many steps with plans of SMALL_PLAN steps, one plan after another. The figures are per
        step. Prints the memory of the orchestrator."""
        with self._processes("plans") as processes:
            registry = processes.start("archon_services.registry", ARCHON_ETCD="memory")
            for kind in ("worker", "planner"):
                processes.start("tests.bench.scale_agents", kind, ARCHON_REGISTRY=registry)
            subject = self._load(processes, registry).subject
            small, large = (
                Load(subject, max(1, self._runs // size), size, 1, str(size), ("worker",), per_task=True, planned=True)
                for size in (SMALL_PLAN, steps)
            )
            uvloop.run(ready(large))
            memory = [memory_of(subject)]
            comparison = self._compare(small, large)
            memory.append(memory_of(subject))
            print(f"memory of the orchestrator before and after {self._rounds} rounds of plans: {memory} MB")
            return comparison

    def _compare(self, base: Load, loaded: Load) -> Comparison:
        return uvloop.run(compare(base, loaded, self._rounds))

    def _processes(self, name: str) -> Processes:
        return Processes(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._home)), within=SETTLED_WITHIN)

    def _pipeline(self, processes: Processes, **environment: str) -> Load:
        registry, _ = processes.members()
        return self._load(processes, registry, **environment)

    def _load(self, processes: Processes, registry: str, **environment: str) -> Load:
        address = processes.orchestrator(registry, self._journal, **environment)
        return Load(Subject(address, processes.pids[address]), self._runs)

    def _file_with_ended_runs(self, count: int) -> tuple[Path, str]:
        """Runs one run through an orchestrator to its end, and copies it. Returns the file and the last copy's id."""
        with self._processes("template") as processes:
            load = self._pipeline(processes)
            run_id = uvloop.run(one_ended_run(load.subject))
            file = processes.journal_file(self._journal)
        command = [sys.executable, "-m", "tests.bench.ended_runs", str(file), run_id, str(count)]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        return file, done.stdout.strip()


async def one_ended_run(subject: Subject) -> str:
    """Returns the id of a run that has completed on this orchestrator."""
    run_id = ""

    async def completed() -> bool:
        nonlocal run_id
        async with subject.stub() as stub:
            request = submit_request(GOAL)
            request.wait.seconds = 30
            run = (await stub.SubmitRun(request)).run
            run_id = run.run_id
            return bool(run.state == COMPLETED)

    await until("a run completes", completed)
    return run_id


async def until_completed(subject: Subject, run_id: str) -> None:
    """Returns when the orchestrator answers for this run, which has completed."""

    async def completed() -> bool:
        async with subject.stub() as stub:
            run = (await stub.GetRun(pb.GetRunRequest(run_id=run_id))).run
            return bool(run.state == COMPLETED and len(run.tasks) == len(ROLES))

    await until("a copied run is read back", completed)


async def hold_runs(subject: Subject, count: int) -> None:
    """Submits runs to the role that does not answer, and returns when the agents have the task of each."""
    run_ids: list[str] = []
    async with subject.stub() as stub:

        async def role_known() -> bool:
            run_ids.append((await stub.SubmitRun(submit_request(GOAL, ("hold",)))).run.run_id)
            return True

        async def submit() -> None:
            run_ids.append((await stub.SubmitRun(submit_request(GOAL, ("hold",)))).run.run_id)

        async def dispatched() -> bool:
            while run_ids:
                run = (await stub.GetRun(pb.GetRunRequest(run_id=run_ids[-1]))).run
                if run.tasks[0].state != WORKING:
                    return False
                run_ids.pop()
            return True

        await until("the role that holds runs is known", role_known)
        await drive(submit, count - 1, CONCURRENCY)
        await until("every run has been dispatched", dispatched)


async def until_connected(subject: Subject, registry: str, count: int) -> None:
    """Returns when so many instances are registered and the orchestrator has a connection to each."""

    async def registered() -> bool:
        async with RegistryClient(registry) as client:
            return len(await client.list_instances()) == count

    async def connected() -> bool:
        connections = psutil.Process(subject.pid).net_connections("tcp")
        peers = {each.raddr for each in connections if each.status == psutil.CONN_ESTABLISHED}
        return len(peers) > count  # one is the registry

    await until(f"{count} instances are registered", registered)
    await until(f"the orchestrator has {count} sessions", connected)


def show(console: Console, rows: dict[str, tuple[Comparison, str]]) -> None:
    """Prints the table."""
    table = Table(
        "",
        "aim",
        "without, us",
        "with, us",
        "change",
        "of the rounds",
        "p50 / p95",
        "at rest, ms/s",
        "with",
        "change beyond it",
    )
    for name, (comparison, aim) in rows.items():
        table.add_row(name, aim, *comparison.cells())
    console.print(table)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1_000, help="of a measurement")
    parser.add_argument("--journal", choices=("normal", "full"), default="normal")
    parser.add_argument("--ended", type=int, default=100_000, help="ended runs in the journal; 0 leaves this out")
    parser.add_argument("--under-way", type=int, default=5_000, help="runs under way; 0 leaves this out")
    parser.add_argument("--instances", type=int, default=1_000, help="idle instances; 0 leaves this out")
    parser.add_argument("--dead", type=int, default=10_000, help="dead registrations; 0 leaves this out")
    parser.add_argument("--tasks", type=int, default=1_000, help="tasks of the large run; 0 leaves this out")
    parser.add_argument("--steps", type=int, default=1_000, help="steps of the large plan; 0 leaves this out")
    given = parser.parse_args()
    console, rows = Console(width=150), {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        console.print(
            f"fdatasync p50 of the disk: {fdatasync_p50(home) * 1e6:.0f} us; journal {given.journal}; "
            f"{given.rounds} rounds of {given.runs} runs at {CONCURRENCY}; medians; CPU of the orchestrator"
        )
        scale = Scale(home, journal=given.journal, rounds=given.rounds, runs=given.runs)
        a_minute_later = partial(scale.dead_instances, after=60.0)
        comparisons: list[tuple[int, str, Callable[[int], Comparison], str]] = [
            (given.ended, "ended runs, per run", scale.ended_runs, CHANGE_AIM),
            (given.under_way, "runs under way, per run", scale.runs_under_way, CHANGE_AIM),
            (given.instances, "idle instances, per run", scale.idle_instances, CHANGE_AIM),
            (given.dead, "dead registrations, just made, per run", scale.dead_instances, LATENCY_AIM),
            (given.dead, "dead registrations, a minute old, per run", a_minute_later, LATENCY_AIM),
            (given.steps, f"steps of a plan, per step, against {SMALL_PLAN}", scale.planned_steps, TASK_AIM),
            (given.tasks, f"tasks in a run, per task, against {SMALL_RUN}", scale.many_tasks, TASK_AIM),
        ]
        for count, name, comparison, aim in comparisons:
            if not count:
                continue
            try:
                rows[f"{count:,} {name}"] = comparison(count), aim
            except (NotReached, NotStarted) as error:
                console.print(f"{count:,} {name}: not measured: {error}", markup=False)
        show(console, rows)


if __name__ == "__main__":
    main()
