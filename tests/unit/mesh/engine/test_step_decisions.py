"""Steps whose result is chosen from the results of others: by their rule, or by the role that it is left to."""

from __future__ import annotations

from archon_mesh.core.people import Decision, InterceptionRule, Trigger
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.decision import awaits_decision
from archon_mesh.engine.types import UNDECIDED, TaskState
from tests.unit.mesh.engine.plan_run import PlanRun, step


def voting(*, role: str = "", **fields: object) -> PlanRun:
    run = PlanRun(step("a"), step("b"), step("vote", "a", "b", decision="vote", role=role, **fields))
    run.complete("a", "b")
    return run


def decided(run: PlanRun) -> list[ev.Event]:
    return run.feed(inp.DecisionIn(run.task("vote").task_id, True, payload="360"))


def undecided(run: PlanRun) -> list[ev.Event]:
    return run.feed(inp.DecisionIn(run.task("vote").task_id, False, "a tie"))


def test_a_rule_makes_the_result_without_an_attempt() -> None:
    run = voting()
    (created,) = [event for event, _ in run.log if isinstance(event, ev.TaskCreated) and event.step_id == "vote"]
    assert created.role == "decision"
    result, ended = decided(run)
    assert isinstance(result, ev.ResultReceived)
    assert (result.attempt, result.state, result.publish) == (0, TaskState.COMPLETED, False)
    assert isinstance(ended, ev.RunEnded)
    assert run.state.answer_seqs == (run.task("vote").result_seq,)
    assert run.task("vote").payload == "360"


def test_a_decision_is_made_once_and_not_before_its_step_is_ready() -> None:
    run = PlanRun(step("a"), step("b"), step("vote", "a", "b", decision="vote"), step("z", "vote"))
    assert decided(run) == []
    run.complete("a", "b")
    assert awaits_decision(run.state, run.task("vote").task_id)
    decided(run)
    assert decided(run) == []
    assert undecided(run) == []
    assert run.waiting() == {"z"}


def test_an_undecided_step_goes_to_its_role_like_any_other() -> None:
    run = voting(role="writer")
    (retried,) = undecided(run)
    assert isinstance(retried, ev.Retried)
    assert retried.failure.reason == UNDECIDED
    assert undecided(run) == []
    assert run.state.recovered == 0
    run.complete("vote")
    assert run.state.state is TaskState.COMPLETED
    assert run.task("vote").attempt == 1


def test_an_undecided_step_without_a_role_fails() -> None:
    run = voting()
    events = undecided(run)
    assert isinstance(events[0], ev.TaskEnded)
    assert events[0].failure is not None
    assert events[0].failure.message == "undecided: a tie"
    assert run.task("vote").state is TaskState.FAILED


def test_an_undecided_step_without_a_role_can_be_planned_anew() -> None:
    run = voting(expand_on_failure=True)
    undecided(run)
    assert run.state.plan is not None
    assert run.state.plan.expanding == ("vote",)


def test_a_rule_for_checkpoints_asks_about_a_decision() -> None:
    rule = InterceptionRule(Trigger.CHECKPOINT, name="check", approvers=("ann",))
    run = PlanRun(step("a"), step("b"), step("vote", "a", "b", decision="vote", checkpoint=True), rules=(rule,))
    for name in ("a", "b"):
        run.complete(name)
        _approve(run, name)
    (asked,) = decided(run)
    assert isinstance(asked, ev.ApprovalRequested)
    assert decided(run) == []
    _approve(run, "vote")
    assert run.state.state is TaskState.COMPLETED


def _approve(run: PlanRun, name: str) -> None:
    question = run.task(name).question
    if question:
        run.feed(inp.Respond(question, "ann", f"answer {question}", "d", None, Decision.APPROVE))


def test_a_step_with_a_quorum_decides_by_the_results_that_it_has() -> None:
    run = PlanRun(step("a"), step("b"), step("vote", "a", "b", decision="first", quorum=1))
    run.begin("a", "b")
    run.complete("b")
    result, *_ = decided(run)
    assert isinstance(result, ev.ResultReceived)
    assert run.state.ending is TaskState.COMPLETED
    assert run.task("a").stopping


def test_a_fork_takes_a_decision_over() -> None:
    run = voting()
    decided(run)
    forked = PlanRun(fork_of=run.state)
    assert forked.state.state is TaskState.COMPLETED


def test_a_decision_needs_no_role_and_gets_none_by_its_description() -> None:
    run = voting()
    assert run.state.plan is not None
    assert run.state.plan.steps["vote"].role == ""
    assert run.state.plan.changes == ()
