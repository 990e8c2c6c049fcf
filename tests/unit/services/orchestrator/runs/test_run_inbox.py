"""What a run takes from its inbox for one step."""

from __future__ import annotations

from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.run_inbox import MAX_STEP_BYTES, MAX_STEP_INPUTS, RunInbox


def ticks(number: int, size: int = 0) -> list[Delivery]:
    return [Delivery(inp.Tick(), size=size) for _ in range(number)]


def test_a_step_takes_a_bounded_number_of_inputs_so_that_other_runs_have_their_turn() -> None:
    deliveries = ticks(3 * MAX_STEP_INPUTS + 1)
    inbox = RunInbox("r", deliveries)
    taken: list[Delivery] = []
    while inbox:
        batch = inbox.take()
        assert len(batch) <= MAX_STEP_INPUTS
        taken += batch
    assert all(a is b for a, b in zip(taken, deliveries, strict=True))


def test_a_step_takes_no_further_input_above_its_size() -> None:
    inbox = RunInbox("r", ticks(5, MAX_STEP_BYTES // 2))
    assert [len(inbox.take()) for _ in range(3)] == [2, 2, 1]
