"""The notices of a run: one for each open question, with another id for each approver."""

from __future__ import annotations

from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.channels import notices_of
from tests.unit.mesh.engine.plan_run import PlanRun, step


def test_a_notice_has_another_id_for_the_next_approver() -> None:
    rule = InterceptionRule(
        Trigger.PLAN,
        Condition(),
        name="plans",
        approvers=("ann", "bob"),
        timeout=5.0,
        on_timeout=TimeoutPolicy.ESCALATE,
    )
    run = PlanRun(rules=(rule,))
    run.begin("r.1")
    run.reply(step("a"))
    (first,) = notices_of(run.state)
    assert (first.id, first.approvers, first.expires) == ("r.1/approval-1#0", ("ann",), run.now + 5.0)
    assert "Approve the plan" in first.text
    assert first.command == "archon respond r --question 1/approval-1"
    run.now += 5.0
    run.feed(inp.Tick())
    (second,) = notices_of(run.state)
    assert (second.id, second.approvers) == ("r.1/approval-1#1", ("ann", "bob"))


def test_a_run_that_ends_has_no_notices() -> None:
    run = PlanRun(rules=(InterceptionRule(Trigger.PLAN),))
    run.begin("r.1")
    run.reply(step("a"))
    run.feed(inp.Cancel("me", ""))
    assert list(notices_of(run.state)) == []
