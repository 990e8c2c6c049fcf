"""`python -m tests.bench.record_bytes` measures what the recorded calls of a run cost: bytes of its journal, and
processor time of a mesh in this process, without records, with records as they are, and with compressed ones.

A run has four roles in a row; each makes three calls of a model, whose requests repeat the conversation so far, and two
calls of a tool. The texts are pages of the documentation."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from archon.agent import AgentServer, TaskContext
from archon.types import Usage
from archon_services.orchestrator.convert import stored_record
from archon_services.testing import InProcessMesh

ROLES: Final = ("reader", "analyst", "writer", "critic")
MODEL_CALLS: Final = 3
AT_A_TIME: Final = 16
PAGES: Final = [page.read_text() for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))]
WORDS: Final = 1_500
"""Characters of a message of the conversation."""

MODES: Final = {"no records": 0, "as they are": 2**62, "compressed": stored_record.SMALLEST}
"""The bytes from which on a record is compressed; 0: nothing is recorded."""


class Measured(NamedTuple):
    """Bytes of a run's steps and records, of the journal's file per run, and processor time per run in seconds."""

    steps: float
    records: float
    file: float
    processor: float


def work_of(role: str, number: int, *, records: bool) -> Callable[[TaskContext], Awaitable[str]]:
    """Returns the work of a role."""

    runs = count()

    async def work(task: TaskContext) -> str:
        page = PAGES[(number * 7 + next(runs)) % len(PAGES)]
        messages = [{"role": "system", "content": page[:WORDS]}]
        for call in range(MODEL_CALLS if records else 0):
            messages.append({"role": "user", "content": page[call * WORDS :][:WORDS]})
            answer = {"text": page[-(call + 1) * WORDS :][:WORDS]}
            usage = Usage(input_tokens=1_000, output_tokens=300)
            task.record_model_call("m", {"messages": list(messages)}, answer, started=0.0, seconds=1.0, usage=usage)
            messages.append({"role": "assistant", "content": answer["text"]})
            if call:
                task.record_tool_call("read", {"page": call}, {"text": page[:WORDS]}, started=0.0, seconds=0.1)
        return f"{role}: {page[:WORDS]}"

    return work


async def measure(mode: str, runs: int) -> Measured:
    """Executes runs in a mesh of its own."""
    stored_record.SMALLEST = MODES[mode] or stored_record.SMALLEST  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.db"
        async with InProcessMesh(Path(folder), journal=str(journal)) as mesh, AsyncExitStack() as stack:
            for number, role in enumerate(ROLES):
                upstream = ROLES[number - 1 : number]
                work = work_of(role, number, records=bool(MODES[mode]))
                settings = mesh.agent_settings()
                server = AgentServer(role, handler=work, settings=settings, depends_on=upstream, max_tasks=AT_A_TIME)
                await stack.enter_async_context(server)
            gate = asyncio.Semaphore(AT_A_TIME)

            async def run() -> None:
                async with gate:
                    handle = await mesh.client.submit("Explain the page.", roles=ROLES, wait=60)
                    assert (await handle.result(60)).state == "completed"

            await run()
            began = time.process_time()
            await asyncio.gather(*(run() for _ in range(runs)))
            processor = (time.process_time() - began) / runs
        with sqlite3.connect(journal) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            steps = db.execute("SELECT sum(length(data) + length(inputs)) FROM steps").fetchone()[0]
            records = db.execute("SELECT coalesce(sum(length(data)), 0) FROM records").fetchone()[0]
        return Measured(steps / (runs + 1), records / (runs + 1), journal.stat().st_size / (runs + 1), processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[Measured]] = {mode: [] for mode in MODES}
    for _ in range(options.rounds):
        for mode in MODES:
            found[mode].append(asyncio.run(measure(mode, options.runs)))
    print(f"{'':12} {'steps':>9} {'records':>9} {'file':>9}  processor time, per run")
    for mode, measured in found.items():
        last, middle = measured[-1], statistics.median(each.processor for each in measured)
        sizes = " ".join(f"{size / 1e3:6.1f} kB" for size in last[:3])
        print(f"{mode:12} {sizes}  {middle * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
