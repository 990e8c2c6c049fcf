"""`python -m tests.bench.export` measures `archon export` and `archon replay` of a run of many tasks: seconds, the most
memory of the process, and the bytes of the file. `--records 0` leaves out the recorded calls."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from archon.agent import AgentServer, TaskContext
from archon.types import Usage
from archon_services.testing import InProcessMesh

CONTENT = "A sentence of a prompt, which is recorded as it was sent. " * 20
AT_A_TIME = 50


class Measured(NamedTuple):
    """What a command has used."""

    seconds: float
    megabytes: float


PROGRAM = """
import atexit, pathlib, runpy, sys
report = sys.argv.pop(1)
atexit.register(lambda: pathlib.Path(report).write_text(pathlib.Path("/proc/self/status").read_text()))
runpy.run_module("archon_services.cli", run_name="__main__")
"""
"""`archon`, which reports its most memory: what the kernel counts for a child includes its parent's."""


async def measured(*arguments: str) -> Measured:
    """Runs a command as a process, and returns its time and the most memory that it had."""
    with tempfile.NamedTemporaryFile() as report:
        started = time.monotonic()
        command = [sys.executable, "-c", PROGRAM, report.name, *arguments]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        assert await asyncio.wait_for(process.wait(), 300) == 0, arguments
        seconds = time.monotonic() - started
        return Measured(seconds, peak_of(Path(report.name)))


def peak_of(report: Path) -> float:
    """Returns the most memory that a report names, in MB."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", report.read_text())
    assert peak is not None
    return int(peak[1]) / 1024


@asynccontextmanager
async def recorded(folder: Path, tasks: int, records: int) -> AsyncIterator[tuple[str, str]]:
    """A mesh with a run of so many tasks, with so many recorded calls each. Yields the run's id, and the address of the
    orchestrator."""

    async def lead(task: TaskContext) -> str:
        gate = asyncio.Semaphore(AT_A_TIME)

        async def part(number: int) -> str:
            async with gate:
                return (await task.delegate(f"part {number}: {CONTENT}", role="coder")).text

        return str(sum(map(len, await asyncio.gather(*(part(number) for number in range(tasks - 1))))))

    async def coder(task: TaskContext) -> str:
        for _ in range(records):
            request = {"messages": [{"role": "user", "content": task.text}]}
            task.record_model_call("m", request, {"text": CONTENT}, started=time.time(), seconds=0.1, usage=Usage())
        return f"done: {task.text}"

    async with InProcessMesh(folder) as mesh:
        settings = mesh.agent_settings
        async with (
            AgentServer("coder", handler=coder, settings=settings(), max_tasks=AT_A_TIME),
            AgentServer("lead", handler=lead, settings=settings()),
        ):
            handle = await mesh.client.submit("x", roles=["lead"], wait=300)
            assert (await handle.result(300)).state == "completed"
        yield handle.run_id, mesh.orchestrator.address


async def measured_export(folder: Path, tasks: int, records: int) -> tuple[Path, Measured]:
    """Returns the file of a run of so many tasks, and what its export has used."""
    file = folder / "run.archon"
    async with recorded(folder, tasks, records) as (run_id, orchestrator):
        return file, await measured("export", run_id, "-o", str(file), "--orchestrator", orchestrator)


async def main(tasks: int, records: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, exported = await measured_export(Path(folder), tasks, records)
        base = await measured("--version")
        print(f"{tasks:,} tasks, {records} records each: {file.stat().st_size / 1e6:.2f} MB")
        print(f"export: {exported.seconds:.2f} s, {exported.megabytes:.0f} MB")
        decided = await measured("replay", str(file), "--decide")
        print(f"replay --decide: {decided.seconds:.2f} s, {decided.megabytes:.0f} MB")
        replayed = await measured("replay", str(file))
        print(f"replay: {replayed.seconds:.2f} s, {replayed.megabytes:.0f} MB")
        print(f"archon --version: {base.seconds:.2f} s, {base.megabytes:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(main(options.tasks, options.records))
