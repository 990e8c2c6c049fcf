"""`make soak MINUTES=60`: a mesh of real processes under constant load, whose agents are killed in turn.

It must neither lose nor fail a run, nor grow.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from pathlib import Path

from archon.client import Client
from archon_services.testing.mesh import LocalMesh
from tests.bench.flat import RULE
from tests.bench.soak_load import RATES, Load, Tally
from tests.bench.soak_report import LIMITS, Measures, progress, runs

SAMPLE_INTERVAL = 10.0
KILL_INTERVAL = 60.0
FIRST_KILL = 30.0
REPLICAS = {"requirements": 2, "designer": 2, "implementer": 2, "coordinator": 2}
KILLED = ("designer-1", "implementer-1", "coordinator-2", "requirements-2", "designer-2", "implementer-2")
"""In turn. requirements-1 is left alone: in one that lives for minutes only, no leak shows."""

RETENTION = {"ARCHON_COMPACT_AFTER": "60", "ARCHON_DELETE_AFTER": "180"}
QUIET = {"ARCHON_LOG_LEVEL": "warning"}


class Soak:
    """One soak over a mesh that is up."""

    def __init__(self, mesh: LocalMesh, minutes: float, stop: asyncio.Event) -> None:
        self.tally = Tally()
        self.measures = Measures({"journal": mesh.home / "journal.db", "memory items": mesh.home / "memory.db"})
        self.killed: list[str] = []
        self.seconds = 0.0
        self._mesh = mesh
        self._minutes = minutes
        self._stop = stop

    async def run(self) -> None:
        """Until the time is over, or it is stopped."""
        began = time.monotonic()
        tasks = [
            asyncio.create_task(self._sample()),
            asyncio.create_task(self._kill()),
            asyncio.create_task(self._tell()),
        ]
        try:
            async with Load(self._mesh.orchestrator, self.tally, self._mesh.credentials):
                try:
                    async with asyncio.timeout(self._minutes * 60):
                        await self._stop.wait()
                    print("stopped; the runs under way are seen through", flush=True)
                except TimeoutError:
                    pass
                self.seconds = time.monotonic() - began
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                self.tally.failures[f"the soak itself: {error!r}"] += 1
        await self._none_is_open()

    async def _sample(self) -> None:
        while True:
            self.measures.sample(await asyncio.to_thread(lambda: self._mesh.pids))
            await asyncio.sleep(SAMPLE_INTERVAL)

    async def _kill(self) -> None:
        await asyncio.sleep(FIRST_KILL)
        while True:
            name = KILLED[len(self.killed) % len(KILLED)]
            self.killed.append(name)
            await asyncio.to_thread(self._kill_one, name)
            await asyncio.sleep(KILL_INTERVAL)

    def _kill_one(self, name: str) -> None:
        """kill -9; the mesh starts it anew, as in production."""
        self._mesh.wait(name, not_pid=self._mesh.kill(name))

    async def _tell(self) -> None:
        minute = 0
        while True:
            await asyncio.sleep(60)
            minute += 1
            print(progress(self.tally, minute, self.killed), flush=True)

    async def _none_is_open(self) -> None:
        """At rest every run of the journal has ended."""
        async with Client(self._mesh.orchestrator, credentials=self._mesh.credentials) as client:
            for run in await client.list_runs(limit=20_000):
                if not run.state.final:
                    self.tally.failures[f"lost: a run is {run.state} at the end"] += 1


def report(soak: Soak) -> int:
    """Prints it all; the exit code."""
    lines, bad = soak.measures.table()
    print("", *lines, "", *runs(soak.tally, soak.seconds), f"killed with -9: {len(soak.killed)} agents", sep="\n")
    for failure, number in soak.tally.failures.most_common(20):
        print(f"FAILED {number} x {failure}")
    for line in bad:
        print(f"NOT FLAT {line}")
    wrong = bool(bad or soak.tally.failures or not soak.tally.states)
    print("the soak failed" if wrong else "nothing was lost, nothing failed, everything is flat", flush=True)
    return int(wrong)


async def soak(mesh: LocalMesh, minutes: float) -> int:
    """Ctrl-C ends it, with the table so far."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    one = Soak(mesh, minutes, stop)
    await one.run()
    return report(one)


def main() -> int:
    """Runs the load and prints the report."""
    allowed = "\n".join(
        f"  {name}: {limit.growth:g} {unit} of growth, {limit.per_hour:g} {unit} an hour".replace(
            "  of", " of"
        ).replace("  an", " an")
        for name, (unit, limit) in LIMITS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.soak",
        description=f"{__doc__}\n{RULE}\n\n{allowed}\n\nRuns a second: {RATES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60); 2 is a smoke test")
    parser.add_argument("--home", type=Path, help="a folder for data and logs, which is kept; else a temporary one")
    given = parser.parse_args()
    services = {"registry": QUIET, "memory": QUIET, "orchestrator": {**QUIET, **RETENTION}}
    environment = {**services, **dict.fromkeys(REPLICAS, QUIET)}
    print(f"a soak of {given.minutes:g} minutes; Ctrl-C ends it with the table so far", flush=True)
    with LocalMesh(replicas=REPLICAS, environment=environment, home=given.home) as mesh:
        return asyncio.run(soak(mesh, given.minutes))


if __name__ == "__main__":
    sys.exit(main())
