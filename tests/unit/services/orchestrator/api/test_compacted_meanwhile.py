"""A run whose events are deleted while a request reads them is answered from its summary."""

from __future__ import annotations

import pytest
from typing_extensions import override

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.orchestrator.convert.run_view import run_to_proto
from archon_services.orchestrator.journal import MemoryJournal, StoredStep
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.states.load import load_run
from tests.fixtures.journal import commit, new_run, step_of
from tests.fixtures.orchestrating import commands_of


class CompactingJournal(MemoryJournal):
    """Compacts the run before it returns the step after event `when`."""

    def __init__(self, when: int) -> None:
        super().__init__()
        self.when = when
        self.summary = b""

    @override
    async def steps(self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = 0) -> list[StoredStep]:
        if self.summary and after_seq == self.when:
            await self.compact(run_id, self.summary)
        return await super().steps(run_id, after_seq, 1)


@pytest.mark.parametrize("when", [0, 2], ids=["before the first page", "between two pages"])
async def test_a_run_that_is_compacted_meanwhile_is_found(when: int) -> None:
    journal = CompactingJournal(when)
    submitted = run_pb2.RunEvent(run_id="r", seq=1)
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.goal.add(text="x")
    created = run_pb2.RunEvent(run_id="r", seq=2)
    created.task.task_id = "r.1"
    created.task_state.role, created.task_state.state = "a", common_pb2.TASK_STATE_SUBMITTED
    end = run_pb2.RunEvent(run_id="r", seq=3)
    end.run_state.state = common_pb2.TASK_STATE_CANCELED
    first = [submitted.SerializeToString(), created.SerializeToString()]
    await commit(journal, step_of("r", 0, first, new=new_run("r")))
    await commit(journal, step_of("r", 2, [end.SerializeToString()], state=5, ended=True))
    journal.summary = run_to_proto(await load_run(journal, "r")).SerializeToString()
    runs = Runs(owner="o2", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    registry = RegistryWatch("127.0.0.1:1", lambda changed, removed: None)
    try:
        run = await commands_of(runs, journal, registry).run("r")
    finally:
        await registry.close()
        await runs.stop()
    assert run.state == common_pb2.TASK_STATE_CANCELED
