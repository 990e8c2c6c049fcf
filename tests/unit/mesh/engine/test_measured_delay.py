"""Steps that start after the measured time of the role of the step beside them."""

from __future__ import annotations

import pytest

from archon_mesh.engine import Timer, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import FaultKind, SubTask, find_faults
from archon_mesh.engine.plan.repair import repair
from archon_mesh.engine.step_placement import hedges_of
from tests.unit.mesh.engine.plan_run import BUSY, T0, PlanRun, plan_of, step


def hedged_run(**fields: object) -> PlanRun:
    copy = step("b", delay_seconds=10.0, delay_quantile=0.95, **fields)
    return PlanRun(step("a"), copy, step("join", "a", "b", quorum=1))


def begin(run: PlanRun, seconds: float) -> None:
    run.feed(inp.SlotFound(run.task("a").task_id, "i", expected_seconds=seconds))


def test_the_copy_waits_for_the_measured_time_from_the_dispatch_on() -> None:
    run = hedged_run()
    assert [each.step_id for each in hedges_of(run.state, run.task("a"))] == ["b"]
    assert hedges_of(run.state, run.task("b")) == [], "the copy waits for the first, and not the other way round"
    assert run.task("b").not_before == T0 + 10
    run.now = T0 + 1
    begin(run, 2.5)
    assert run.task("b").not_before == T0 + 3.5
    dispatched = next(event for event, _ in run.log[::-1] if isinstance(event, ev.Dispatched))
    assert dispatched.expected_seconds == 2.5
    run.now = T0 + 3
    assert run.feed(inp.SlotFound(run.task("b").task_id, "j")) == []
    run.now = T0 + 3.5
    run.begin("b")
    assert run.task("b").live


def test_without_a_measured_time_the_copy_waits_for_its_delay() -> None:
    run = hedged_run()
    begin(run, 0.0)
    assert run.task("b").not_before == T0 + 10


def test_a_measured_time_may_be_longer_than_the_delay() -> None:
    run = hedged_run()
    begin(run, 60.0)
    assert run.task("b").not_before == T0 + 60


def test_the_time_limit_of_the_copy_counts_from_when_it_may_start() -> None:
    run = hedged_run(timeout_seconds=5.0)
    assert run.task("b").deadline == T0 + 15
    begin(run, 2.0)
    assert run.task("b").deadline == T0 + 7
    assert Timer(T0 + 7) in open_effects(run.state)


def test_a_copy_whose_delay_is_over_does_not_wait_again() -> None:
    run = hedged_run()
    run.now = T0 + 11
    begin(run, 2.0)
    assert run.task("b").not_before == T0 + 10


def test_a_further_attempt_of_the_first_moves_nothing() -> None:
    run = hedged_run()
    begin(run, 2.0)
    run.now = T0 + 1
    run.fail("a", BUSY)
    before = run.task("b").not_before
    run.now = max(run.task("a").not_before, T0 + 1)
    run.feed(inp.SlotFound(run.task("a").task_id, "i", expected_seconds=50.0))
    assert run.task("a").attempt == 2
    assert run.task("b").not_before == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delay_quantile": 0.5, "delay_seconds": 1.0}, "only 0.95 is served"),
        ({"delay_quantile": -1.0, "delay_seconds": 1.0}, "only 0.95 is served"),
        ({"delay_quantile": float("nan"), "delay_seconds": 1.0}, "only 0.95 is served"),
        ({"delay_quantile": 0.95}, "has no `delay_seconds`"),
    ],
)
def test_other_quantiles_are_faults_which_repair_drops(fields: dict[str, float], message: str) -> None:
    plan = plan_of(step("a"), SubTask("b", "Do b.", **fields))  # type: ignore[arg-type]
    (fault,) = find_faults(plan, tools=None, roles=None, capabilities=None)
    assert (fault.kind, fault.subtask_id) == (FaultKind.INVALID_DELAY, "b")
    assert message in fault.message
    repaired, changes = repair(plan, tools=None, roles=None, capabilities=None)
    assert find_faults(repaired, tools=None, roles=None, capabilities=None) == ()
    assert len(changes) == 1
