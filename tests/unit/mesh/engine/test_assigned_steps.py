"""Steps that bid, steps that a decision assigns, and the time that a step has."""

from __future__ import annotations

from archon_mesh.core.people import Condition, Decision, InterceptionRule, Trigger
from archon_mesh.engine import CancelAttempt, Timer, open_effects, place_of
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Failure, TaskState
from tests.unit.mesh.engine.plan_run import T0, PlanRun, step


def auction(*, rules: tuple[InterceptionRule, ...] = (), checkpoint: bool = False) -> PlanRun:
    """Two bids, their award, and the step that it assigns."""
    return PlanRun(
        step("bid-1", role="writer", bid_for="work"),
        step("bid-2", role="booker", bid_for="work"),
        step("award", "bid-1", "bid-2", decision="award", partial_input=True, checkpoint=checkpoint),
        step("work", "award", role="writer", assigned_by="award"),
        rules=rules,
    )


def bid(run: PlanRun, name: str, instance: str) -> None:
    task = run.task(name)
    run.feed(inp.SlotFound(task.task_id, instance))
    run.feed(inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, "{}"))


def award(run: PlanRun, winner: str) -> list[ev.Event]:
    return run.feed(inp.DecisionIn(run.task("award").task_id, True, "", "{}", winner))


def test_the_winner_of_an_award_executes_the_step_at_its_own_instance() -> None:
    run = auction()
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "e-1")
    award(run, "bid-2")
    place = place_of(run.state, run.task("work"))
    assert (place.want.role, place.prefer) == ("booker", "e-1")
    (dispatched,) = run.feed(inp.SlotFound(run.task("work").task_id, "e-1"))
    assert isinstance(dispatched, ev.Dispatched)
    assert dispatched.role == "booker"
    assert run.task("work").role == "booker"


def test_a_step_without_a_winner_goes_to_its_own_role() -> None:
    run = auction()
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "e-1")
    award(run, "")
    place = place_of(run.state, run.task("work"))
    assert (place.want.role, place.prefer) == ("writer", "")


def test_a_bid_is_no_context_of_the_step_that_it_is_for() -> None:
    run = auction()
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "e-1")
    award(run, "bid-1")
    run.begin("work")
    assert run.task("work").context == ()


def test_an_award_is_decided_once() -> None:
    run = auction()
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "e-1")
    assert award(run, "bid-1")
    assert award(run, "bid-2") == []
    assert run.task("award").winner == "bid-1"


def test_an_instance_whose_attempt_failed_is_not_preferred_again() -> None:
    run = auction()
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "e-1")
    award(run, "bid-2")
    run.task("work").avoid = "e-1"
    place = place_of(run.state, run.task("work"))
    assert (place.prefer, place.avoid) == ("", ("e-1",))


def test_steps_that_are_compared_go_to_different_instances() -> None:
    run = PlanRun(step("a"), step("b"), step("c", role="booker"), step("vote", "a", "b", "c", decision="vote"))
    run.feed(inp.SlotFound(run.task("a").task_id, "w-1"))
    assert place_of(run.state, run.task("b")).avoid == ("w-1",)
    assert place_of(run.state, run.task("c")).avoid == ()


def test_steps_that_are_only_dependencies_of_one_step_may_share_an_instance() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b"))
    run.feed(inp.SlotFound(run.task("a").task_id, "w-1"))
    assert place_of(run.state, run.task("b")).avoid == ()


def test_a_step_fails_when_its_time_is_over_and_its_attempt_is_cancelled() -> None:
    run = PlanRun(step("a", timeout_seconds=5), step("b", "a", partial_input=True))
    run.begin("a")
    (due,) = [each.at for each in open_effects(run.state) if isinstance(each, Timer) and each.at < T0 + 60]
    assert run.feed(inp.Tick(), at=due - 0.1) == []
    events = run.feed(inp.Tick(), at=due)
    assert isinstance(events[0], ev.TaskEnded)
    assert events[0].state is TaskState.FAILED
    assert events[0].failure is not None
    assert events[0].failure.reason == "STEP_TIMEOUT"
    assert CancelAttempt(run.task("a").task_id, 1, 1, "i") in open_effects(run.state)
    assert run.waiting() == {"b"}


def test_the_time_of_a_step_begins_when_it_may_start() -> None:
    run = PlanRun(step("a"), step("b", "a", timeout_seconds=5))
    assert run.task("b").deadline == 0
    run.complete("a")
    assert run.task("b").deadline == run.state.latest_time + 5


def test_a_step_that_finds_no_instance_fails_when_its_time_is_over() -> None:
    run = PlanRun(step("a", timeout_seconds=5), step("b", "a", partial_input=True))
    events = run.feed(inp.Tick(), at=run.task("a").deadline)
    assert isinstance(events[0], ev.TaskEnded)
    assert run.waiting() == {"b"}


def test_several_steps_whose_time_is_over_fail_one_after_the_other() -> None:
    bid = {"timeout_seconds": 5, "bid_for": "work"}
    run = PlanRun(
        step("a", **bid),
        step("b", **bid),
        step("award", "a", "b", decision="award", partial_input=True),
        step("work", "award", assigned_by="award"),
    )
    due = run.task("a").deadline
    assert run.feed(inp.Tick(), at=due)
    assert run.waiting() == {"b"}
    assert run.feed(inp.Tick(), at=due)
    assert run.feed(inp.Tick(), at=due) == []
    assert run.waiting() == {"award"}
    assert run.count(ev.TaskCreated) == 5  # the planner's, and four steps: bids that do not come need no new plan


def test_the_agents_own_timer_gives_the_same_failure() -> None:
    run = PlanRun(step("a", timeout_seconds=5), step("b", "a", partial_input=True))
    run.begin("a")
    late = Failure("DEADLINE_EXCEEDED", "", "the handler took too long")
    task = run.task("a")
    (result, *_) = run.feed(inp.ResultIn(task.task_id, 1, TaskState.FAILED, None, late), at=task.deadline + 0.1)
    assert isinstance(result, ev.ResultReceived)
    assert result.failure is not None
    assert result.failure.reason == "STEP_TIMEOUT"


def test_a_fork_takes_over_the_result_of_the_role_that_won() -> None:
    run = auction()
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "b-1")
    award(run, "bid-2")
    run.complete("work")
    forked = PlanRun(fork_of=run.state)
    assert forked.state.state is TaskState.COMPLETED
    assert forked.task("work").role == "booker"
    assert forked.task("award").winner == "bid-2"


def test_an_award_to_the_result_of_another_award_goes_to_the_role_of_its_bid() -> None:
    run = PlanRun(
        step("bid-1", role="booker", bid_for="work"),
        step("inner", "bid-1", decision="award"),
        step("bid-2", role="writer", bid_for="work"),
        step("outer", "inner", "bid-2", decision="award"),
        step("work", "outer", role="writer", assigned_by="outer"),
    )
    bid(run, "bid-1", "b-1")
    run.feed(inp.DecisionIn(run.task("inner").task_id, True, "", "{}", "bid-1"))
    bid(run, "bid-2", "w-1")
    run.feed(inp.DecisionIn(run.task("outer").task_id, True, "", "{}", "inner"))
    place = place_of(run.state, run.task("work"))
    assert (place.want.role, place.prefer) == ("booker", "b-1")


def test_a_decision_that_its_own_role_has_made_assigns_that_role() -> None:
    run = PlanRun(
        step("a"),
        step("b"),
        step("vote", "a", "b", decision="vote", role="booker"),
        step("work", "vote", role="writer", assigned_by="vote"),
    )
    run.complete("a", "b")
    run.feed(inp.DecisionIn(run.task("vote").task_id, False, "a tie"))
    run.complete("vote")
    assert place_of(run.state, run.task("work")).want.role == "booker"


def test_an_award_that_a_person_approves_assigns_its_winner() -> None:
    rule = InterceptionRule(Trigger.CHECKPOINT, condition=Condition(step="award"), name="check", approvers=("ann",))
    run = auction(rules=(rule,), checkpoint=True)
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "b-1")
    (asked,) = award(run, "bid-2")
    assert isinstance(asked, ev.ApprovalRequested)
    assert run.waiting() == set()
    run.feed(inp.Respond(run.task("award").question, "ann", "request", "d", None, Decision.APPROVE))
    assert place_of(run.state, run.task("work")).want.role == "booker"


def test_an_award_that_a_person_replaces_assigns_no_one() -> None:
    rule = InterceptionRule(Trigger.CHECKPOINT, condition=Condition(step="award"), name="check", approvers=("ann",))
    run = auction(rules=(rule,), checkpoint=True)
    bid(run, "bid-1", "w-1")
    bid(run, "bid-2", "b-1")
    award(run, "bid-2")
    run.feed(inp.Respond(run.task("award").question, "ann", "request", "d", "the writer", Decision.MODIFY))
    assert place_of(run.state, run.task("work")).want.role == "writer"
