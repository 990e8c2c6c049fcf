"""The budget of a run (rule C9): reserved before it is spent, settled afterwards, shared by all tasks."""

from __future__ import annotations

from typing import Any

import pytest

from archon_mesh.engine import Grant
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.budget import SLICES, left
from archon_mesh.engine.types import NOTHING, Amount, Budget, Failure, TaskState
from tests.unit.mesh.engine.lead_run import GONE, Lead, refused


def reserved(run: Lead, number: int = 1) -> Amount:
    return run.state.tasks[f"r.{number}"].reserved


def free(run: Lead, number: int = 1) -> Amount:
    return left(run.state, run.state.tasks[f"r.{number}"])


def spend(run: Lead, number: int, tokens: int, cost: int = 0) -> list[ev.Event]:
    """The usage that a progress frame reports."""
    task = run.state.tasks[f"r.{number}"]
    return run.feed(inp.UsageIn(task.task_id, task.attempt, Amount(tokens, cost)))


def test_contract_rule_9_an_attempt_starts_with_a_slice() -> None:
    for budget, expected in (
        (Budget(800, 80), Amount(100, 10)),
        (Budget(800), Amount(100)),
        (Budget(cost=80), Amount(cost=10)),
        (Budget(3), Amount(1)),
        (Budget(calls=80), Amount(calls=10)),
        (Budget(800, 80, 0, 2), Amount(100, 10, 1)),
    ):
        run = Lead(budget=budget)
        run.place(1)
        assert reserved(run) == expected
    run = Lead(budget=Budget(depth=3))
    run.place(1)
    dispatched = run.log[-1]
    assert isinstance(dispatched, ev.Dispatched)
    assert dispatched.reserved is None, "how deep it may nest is no amount"


def test_contract_rule_9_calls_of_models_are_reserved_as_tokens_are() -> None:
    run = Lead(budget=Budget(calls=3))
    run.place(1)
    task = run.state.tasks["r.1"]
    run.feed(inp.BudgetRequestIn(task.task_id, task.attempt, "b1", 0, Amount(500, 5, 2)))
    assert reserved(run) == Amount(calls=3), "kinds without a limit are not reserved"
    run.feed(inp.BudgetRequestIn(task.task_id, task.attempt, "b2", 0, Amount(calls=1)))
    failure = task.requests["b2"]
    assert isinstance(failure, Failure)
    assert failure.message == "insufficient budget of the run: 0 of 3 calls of models left, lead needs 1"
    assert run.feed(inp.UsageIn(task.task_id, task.attempt, Amount(10, 0, 3))) == []
    ended = run.feed(inp.UsageIn(task.task_id, task.attempt, Amount(10, 0, 4)))
    assert ended, "a report above the budget ends the run"


def test_contract_rule_9_a_request_reserves_the_rest() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    assert run.request(1, 600, "b1") == Amount(600)
    assert run.request(1, 200, "b2") is None
    assert run.request(1, 100, "b3") == Amount(100)
    assert free(run) == NOTHING
    assert reserved(run) == Amount(800)
    assert {effect.request_id for effect in run.opened(Grant)} == {"b1", "b2", "b3"}
    again = inp.BudgetRequestIn("r.1", 1, "b1", 0, Amount(600))
    assert run.feed(again) == [], "a repeat changes nothing"
    assert run.feed(inp.BudgetRequestIn("r.1", 2, "b4", 0, Amount(1))) == [], "of no attempt that there is"


def test_a_budget_failure_names_the_budget_and_its_amounts() -> None:
    run = Lead(budget=Budget(800, 5_000))
    run.place(1)
    run.request(1, 600, "b1")
    run.request(1, 101, "b2")
    event = run.log[-1]
    assert isinstance(event, ev.BudgetReserved)
    failure = event.failure
    assert failure is not None
    assert failure.message == "insufficient budget of the run: 100 of 800 tokens left, lead needs 101"
    assert dict(failure.metadata) == {
        "budget": "tokens",
        "limit": "800",
        "needed": "101",
        "role": "lead",
        "scope": "run",
        "spent": "700",
    }
    assert failure.kind == "input.budget"


def test_a_budget_failure_names_the_role_whose_own_budget_is_spent() -> None:
    run = Lead(budget=Budget(cost=5_000))
    run.place(1)
    run.delegate(budget=Budget(cost=100))
    run.place(2)
    spend(run, 2, 0, 101)
    failure = run.state.tasks["r.2"].failure
    assert failure is not None
    metadata = dict(failure.metadata)
    assert (metadata["budget"], metadata["scope"], metadata["limit"]) == ("cost", "helper", "100")


def test_contract_rule_9_a_reservation_is_settled_by_usage() -> None:
    run = Lead(budget=Budget(800, 800))
    run.place(1)
    run.delegate()
    run.place(2)
    assert free(run) == Amount(600, 600)
    run.result(2, spent=Amount(40, 250))
    assert free(run) == Amount(660, 450)


@pytest.mark.parametrize("end", ["lost", "stopped", "rejected"])
def test_contract_rule_9_a_lost_attempt_counts_its_reservation(end: str) -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    run.delegate()
    run.place(2)
    match end:
        case "lost":
            run.lose(2)
        case "stopped":
            run.cancel("d1")
            run.result(2)
        case _:
            run.feed(inp.RejectIn("r.2", 1, GONE))
    assert free(run) == (Amount(700) if end == "rejected" else Amount(600))


def test_contract_rule_9_a_stopped_attempt_frees_the_unspent() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    run.delegate()
    run.place(2)
    run.cancel("d1")
    (ended,) = run.result(2, TaskState.CANCELED, Amount(40))
    assert isinstance(ended, ev.ResultReceived)
    assert ended.failure == run.state.tasks["r.2"].failure, "why it was stopped stays"
    assert free(run) == Amount(660)


def test_contract_rule_9_concurrent_starts_stay_within_budget() -> None:
    roles = tuple(f"role{number}" for number in range(3 * SLICES))
    run = Lead(roles, budget=Budget(1_000_000))
    for number in range(1, len(roles) + 1):
        run.place(number)
        assert sum(reserved(run, n).tokens for n in range(1, number + 1)) <= 1_000_000
    assert run.state.ending is None, "nothing is spent yet"
    assert all(task.live and task.reserved.tokens for task in run.state.tasks.values())


def test_contract_rule_9_a_task_without_budget_fails_the_run() -> None:
    run = Lead(("a", "b"), budget=Budget(100))
    run.place(1)
    run.result(1, spent=Amount(100))
    run.place(2)
    ended = run.log[-1]
    assert isinstance(ended, ev.RunEnded)
    assert (ended.state, ended.failure and ended.failure.reason) == (TaskState.FAILED, "BUDGET_EXHAUSTED")


def test_contract_rule_9_no_budget_left_refuses_a_delegation() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    assert run.request(1, 700) is not None
    assert refused(run.delegate()) == "BUDGET_EXHAUSTED"
    assert run.state.ending is None


def test_a_child_without_budget_at_dispatch_fails_for_its_parent() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    run.delegate()
    assert run.request(1, 700) is not None
    run.place(2)
    child = run.state.tasks["r.2"]
    assert child.failure is not None
    assert (child.state, child.failure.reason) == (TaskState.FAILED, "BUDGET_EXHAUSTED")
    assert run.state.ending is None


@pytest.mark.parametrize("whole", [Budget(8000), Budget()], ids=["of a budget", "where the run has none"])
def test_contract_rule_9_a_delegation_budget_bounds_descendants(whole: Budget) -> None:
    run = Lead(budget=whole)
    run.place(1)
    run.delegate(budget=Budget(400))
    run.place(2)
    had = reserved(run, 2).tokens
    assert 0 < had <= 400
    run.delegate(2)
    run.delegate(2, "grandchild")
    run.place(3)
    assert reserved(run, 2).tokens + reserved(run, 3).tokens <= 400
    run.result(3, spent=Amount(10))
    assert free(run, 2) == Amount(400 - had - 10), "its own slice, and what its child spent"
    assert run.request(2, 400) is None
    assert run.request(2, 400 - had - 10, "c") is not None


@pytest.mark.parametrize("whole", [Budget(8000), Budget()], ids=["of a budget", "where the run has none"])
def test_contract_rule_9_a_loss_counts_for_the_delegation_budget(whole: Budget) -> None:
    run = Lead(budget=whole)
    run.place(1)
    run.delegate(budget=Budget(100))
    run.place(2)
    had = reserved(run, 2).tokens
    run.lose(2)
    run.place(2)
    assert had + reserved(run, 2).tokens + free(run, 2).tokens == 100


def test_contract_rule_9_usage_above_the_budget_ends_the_run() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    assert spend(run, 1, 800) == []
    (cancel,) = spend(run, 1, 801)
    assert isinstance(cancel, ev.CancelRequested)
    assert cancel.cause == "BUDGET_EXHAUSTED"
    assert spend(run, 1, 900) == [], "the run is canceled once"
    run.result(1)
    ended = run.log[-1]
    assert isinstance(ended, ev.RunEnded)
    assert isinstance(ended.failure, Failure)
    assert ended.failure.reason == "BUDGET_EXHAUSTED"


def test_contract_rule_9_usage_adds_to_spent_and_reserved() -> None:
    run = Lead(("a", "b", "c"), budget=Budget(800, 8000))
    run.place(1, 2)
    run.result(1, spent=Amount(300))
    assert spend(run, 2, 500, 8000 - 1000) == []
    run.place(3)
    assert spend(run, 2, 500) != []


def test_contract_rule_9_excess_of_a_delegation_stops_only_it() -> None:
    for whole in (Budget(8000), Budget()):
        run = Lead(budget=whole)
        run.place(1)
        run.delegate(budget=Budget(100))
        run.place(2)
        run.delegate(2, "grandchild")
        run.place(3)
        events = spend(run, 3, 101)
        assert [event.task_id for event in events if isinstance(event, ev.TaskStopping)] == ["r.2", "r.3"]
        failure = run.state.tasks["r.2"].failure
        assert failure is not None
        assert failure.reason == "BUDGET_EXHAUSTED"
        assert run.state.ending is None


def test_contract_rule_9_without_budget_nothing_is_settled() -> None:
    run = Lead()
    run.place(1)
    run.delegate()
    run.place(2)
    assert spend(run, 2, 10**9) == []
    run.result(2, spent=Amount(10**9))
    run.result(1)
    assert run.state.spent == NOTHING
    made: list[Any] = [event for event in run.log if isinstance(event, ev.Dispatched)]
    assert [event.reserved for event in made] == [None, None]
