"""Tasks of one run that are tried again at different times."""

from __future__ import annotations

from typing import Any, cast

from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Failure, Submission, TaskState
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.ports import Delivery, Transport
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from tests.fixtures.waiting import eventually
from tests.unit.services.orchestrator.runs.test_whose_run import OneInstance


def busy(task_id: str, delay: float) -> Delivery:
    failure = Failure("UNAVAILABLE", "UNAVAILABLE", "later", retry_delay=delay)
    return Delivery(inp.ResultIn(task_id, 1, TaskState.FAILED, cast(Any, None), failure))


async def test_each_task_is_tried_again_at_its_own_time() -> None:
    journal = MemoryJournal()
    runs = Runs(owner="o1", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    runs.start(cast(Transport, OneInstance()))
    runs.claimed()
    await runs.submit(Submission("r", "t", "", "", "pipeline", ("a", "b", "c"), (), 60.0, None), b"")
    runs.deliver("r", busy("r.1", 0.1))
    runs.deliver("r", busy("r.2", 1.5))

    async def tried(task_id: str) -> bool:
        return (await runs.state("r")).tasks[task_id].attempt == 2

    await eventually(lambda: tried("r.1"), 5.0)
    await eventually(lambda: tried("r.2"), 5.0)
    assert (await runs.state("r")).tasks["r.3"].attempt == 1, "it did not fail"
    await runs.stop()
