"""python -m tests.bench.ended_runs FILE RUN_ID COUNT: adds COUNT ended runs to the journal in a SQLite file.

They are copies of a run that an orchestrator has run to its end in this file: its steps are read back and committed
again, under run ids of the same form and length, each with a request id. The last copy is loaded from the file before
the command ends. No orchestrator may have the file open.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import Journal, NewRun, Outcome, Step
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from archon_services.orchestrator.runs.clock.run_ids import RunIds
from archon_services.orchestrator.runs.states.load import fold_journal, load_run

GROUP = 500
"""Runs whose steps are committed together."""


async def steps_of(journal: Journal, run_id: str) -> list[Step]:
    """Returns the steps of an ended run as they were committed."""
    row = await journal.run(run_id)
    assert row is not None, f"there is no run {run_id}"
    assert row.ended_at, f"run {run_id} has not ended"
    inputs = dict(await journal.inputs(run_id))
    steps: list[Step] = []
    events: list[run_pb2.RunEvent] = []
    for stored in await journal.steps(run_id):
        events += events_of(stored.data, run_id)
        run = fold_journal(events, run_id)
        step = Step(
            run_id,
            row.epoch,
            stored.base,
            stored.last_seq,
            f"{run_id}-{stored.base}",
            row.ended_at if run.ended else row.created_at,
            stored.data,
            inputs[stored.base],
            int(run.state),
            ended=run.ended,
            state_changed=not steps or int(run.state) != steps[-1].state,
        )
        steps.append(step)
    steps[0] = replace(steps[0], new=NewRun(run_id, row.tenant, "", b"", row.session_id, row.owner, row.revision))
    return steps


def copy_of(steps: Sequence[Step], run_id: str) -> list[Step]:
    """Returns the steps under another run id of the same length, created by a request of its own."""
    old, new = steps[0].run_id.encode(), run_id.encode()
    assert len(old) == len(new)
    copies = [
        replace(
            step,
            run_id=run_id,
            batch_id=f"{run_id}-{step.base}",
            data=step.data.replace(old, new),
            inputs=step.inputs.replace(old, new),
        )
        for step in steps
    ]
    assert steps[0].new is not None
    new_run = replace(steps[0].new, run_id=run_id, request_id=uuid.uuid4().hex, payload_hash=uuid.uuid4().bytes * 2)
    copies[0] = replace(copies[0], new=new_run)
    return copies


async def add(file: Path, run_id: str, count: int) -> str:
    """Adds the copies. Returns the id of the last one."""
    journal = SqliteJournal(file, sync="normal")
    await journal.open()
    try:
        steps, next_id = await steps_of(journal, run_id), RunIds().next
        last = run_id
        for start in range(0, count, GROUP):
            copies = [copy_of(steps, next_id()) for _ in range(min(GROUP, count - start))]
            for group in zip(*copies, strict=True):
                results = journal.commit(group)
                outcomes = results if isinstance(results, list) else await results
                assert set(outcomes) == {Outcome.DONE}, outcomes
            last = copies[-1][0].run_id
            await asyncio.sleep(0)  # checkpoints run on this loop
        run = await load_run(journal, last)
        assert run.state == TaskState.COMPLETED, run.state
        return last
    finally:
        await journal.close()


def main() -> None:
    """Adds the copies, and prints the id of the last one."""
    file, run_id, count = sys.argv[1:]
    print(asyncio.run(add(Path(file), run_id, int(count))))


if __name__ == "__main__":
    main()
