"""Decisions about delegations (rule C8), and how delegated tasks end."""

from __future__ import annotations

import pytest

from archon_mesh.engine import Answer, CancelAttempt, Place
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import delegation
from archon_mesh.engine.decide.budget import MAX_DEPTH
from archon_mesh.engine.effects import CANCEL_GRACE
from archon_mesh.engine.types import Budget, ContextRef, Failure, TaskState
from tests.unit.mesh.engine.lead_run import GONE, Lead, refused


def test_contract_rule_8_a_delegation_creates_its_task() -> None:
    run = Lead()
    run.place(1)
    delegated, created = run.delegate(sequence=3)
    assert isinstance(delegated, ev.Delegated)
    assert (delegated.child, delegated.memo_key) == ("r.2", "helper.1")
    assert created == ev.TaskCreated("r.2", "helper", "r.1")
    assert run.state.tasks["r.1"].applied == 3
    assert [effect.task_id for effect in run.opened(Place)] == ["r.2"]


def test_contract_rule_8_the_nth_equal_delegation_is_memoized() -> None:
    run = Lead()
    run.place(1)
    run.delegate(digest="x"), run.delegate(digest="x"), run.delegate(digest="y"), run.delegate(key="named")
    assert run.state.tasks["r.1"].children == {"x.1": "r.2", "x.2": "r.3", "y.1": "r.4", "named": "r.5"}
    run.lose()
    run.place(1)
    run.delegate(digest="y"), run.delegate(digest="x"), run.delegate(digest="other", key="named")
    known = run.state.tasks["r.1"].delegations.values()
    assert [(delegation.child, delegation.memoized) for delegation in known] == [
        ("r.4", True),
        ("r.2", True),
        ("r.5", True),
    ]
    assert len(run.state.tasks) == 5


def test_contract_rule_8_the_lineage_bounds_loops_and_depth() -> None:
    run = Lead()
    run.place(1)
    for depth in range(1, MAX_DEPTH + 1):
        run.delegate(depth, f"role{depth}")
        run.place(depth + 1)
    assert refused(run.delegate(MAX_DEPTH + 1, "deeper")) == "DELEGATION_TOO_DEEP"
    assert refused(run.delegate(MAX_DEPTH + 1, "role3", name="again")) == "DELEGATION_LOOP"
    failure = run.log[-1]
    assert isinstance(failure, ev.Delegated)
    assert failure.failure is not None
    assert dict(failure.failure.metadata)["chain"].startswith("lead -> role1 -> role2 -> role3 -> role4")


@pytest.mark.parametrize(("depth", "part", "allowed"), [(1, 0, 1), (3, 0, 3), (0, 1, 2), (3, 1, 2), (1, 5, 1)])
def test_contract_rule_8_run_and_delegation_limit_the_depth(depth: int, part: int, allowed: int) -> None:
    run = Lead(budget=Budget(depth=depth))
    run.place(1)
    run.delegate(1, "role1", budget=Budget(depth=part))
    made = 1
    while True:
        run.place(made + 1)
        events = run.delegate(made + 1, f"role{made + 1}")
        if len(events) == 1:
            break
        made += 1
    assert made == allowed


def test_a_capability_goes_to_the_first_role_not_waiting() -> None:
    run = Lead()
    run.place(1)
    delegated, _ = run.delegate(role="lead", capability="able", others=("second", "third"))
    assert isinstance(delegated, ev.Delegated)
    assert delegated.role == "second"
    (place,) = run.opened(Place)
    assert (place.want.role, place.want.capability) == ("second", "able")
    assert refused(run.delegate(role="lead", capability="mine", others=("lead",))) == "DELEGATION_LOOP"


def test_an_unknown_target_is_refused_a_role_of_the_run_not() -> None:
    run = Lead(targets=("lead", "down"))
    run.place(1)
    assert refused(run.delegate(role="", available=False)) == "INVALID_ARGUMENT"
    assert refused(run.delegate(role="", available=False, capability="able")) == "UNKNOWN_CAPABILITY"
    assert refused(run.delegate(role="absent", available=False)) == "UNKNOWN_ROLE"
    assert refused(run.delegate(budget=Budget(-1))) == "INVALID_ARGUMENT"
    assert len(run.delegate(role="down", available=False)) == 2
    assert run.state.tasks["r.1"].live


def test_contract_rule_8_delegations_of_a_task_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "MAX_DELEGATIONS", 20)
    run = Lead()
    run.place(1)
    for number in range(20):
        run.delegate(key=f"{number}")
    assert refused(run.delegate()) == "TOO_MANY_DELEGATIONS"
    assert len(run.delegate(key="7")) == 1, "a memoized delegation is not counted again"


def test_refused_and_ended_delegations_are_answered() -> None:
    run = Lead()
    run.place(1)
    run.delegate(role="absent", available=False)
    run.delegate()
    assert [effect.delegation_id for effect in run.opened(Answer)] == ["d1"]
    run.place(2)
    run.result(2)
    assert {effect.delegation_id for effect in run.opened(Answer)} == {"d1", "d2"}
    run.cancel("d2")
    assert [effect.delegation_id for effect in run.opened(Answer)] == ["d1"], "no task waits for the answer"


def test_a_frame_of_a_superseded_or_stopping_attempt_is_ignored() -> None:
    run = Lead()
    run.place(1)
    run.lose()
    assert run.delegate() == []
    run.place(1)
    assert run.delegate(name="d") != []
    assert run.delegate(name="d") == [], "a repeat changes nothing"
    run.place(2)
    run.cancel("d")
    assert run.delegate(2) == []
    assert run.cancel("never") == []


def test_contract_rule_8_a_timeout_is_answered_before_the_stop() -> None:
    run = Lead()
    run.place(1)
    run.delegate(timeout=5.0)
    run.place(2)
    assert run.after(4.9) == []
    (stopping,) = run.after(0.2)
    assert isinstance(stopping, ev.TaskStopping)
    assert stopping.failure.reason == "DELEGATION_TIMEOUT"
    assert [effect.delegation_id for effect in run.opened(Answer)] == ["d1"]
    assert [effect.task_id for effect in run.opened(CancelAttempt)] == ["r.2"]
    (discarded,) = run.result(2)
    assert discarded == ev.Discarded("r.2", 1, "DELEGATION_TIMEOUT")
    child = run.state.tasks["r.2"]
    assert (child.state, child.live) == (TaskState.CANCELED, False)


@pytest.mark.parametrize(("waited", "reason"), [(5.0, "DELEGATION_TIMEOUT"), (4.0, "DEADLINE_EXCEEDED")])
def test_a_delegation_out_of_time_is_a_delegation_timeout_also_if_its_agent_notices_first(
    waited: float, reason: str
) -> None:
    run = Lead()
    run.place(1)
    run.delegate(timeout=5.0)
    run.place(2)
    run.now += waited
    late = Failure("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "the time of the task is over")
    run.feed(inp.ResultIn("r.2", 1, TaskState.FAILED, None, late))
    failure = run.state.tasks["r.2"].failure
    assert failure is not None and failure.reason == reason


def test_a_stopping_task_is_never_dispatched_again() -> None:
    for end in ("lost", "rejected"):
        run = Lead()
        run.place(1)
        run.delegate()
        run.place(2)
        run.cancel("d1")
        if end == "lost":
            run.lose(2)
        else:
            run.feed(inp.RejectIn("r.2", 1, GONE))
        assert run.state.tasks["r.2"].state is TaskState.CANCELED
        run.now += 10
        assert run.opened(Place) == []


def test_a_stop_includes_descendants_and_nothing_else() -> None:
    run = Lead()
    run.place(1)
    run.delegate(role="a"), run.delegate(role="b")
    run.place(2, 3)
    run.delegate(2, "c"), run.delegate(2, "d")
    run.place(4)
    events = run.cancel("d1")
    assert [type(event) for event in events] == [ev.DelegationCancelled, ev.TaskStopping, ev.TaskStopping, ev.TaskEnded]
    assert [run.state.tasks[f"r.{n}"].answered for n in (2, 3, 4, 5)] == [True, False, True, True]
    assert run.after(61.0) != [], "the delegation to b times out"
    assert [event.task_id for event in run.log if isinstance(event, ev.TaskStopping)] == ["r.2", "r.4", "r.3"]


def test_a_shared_child_runs_until_both_delegations_cancel() -> None:
    run = Lead()
    run.place(1)
    run.delegate(key="k"), run.delegate(key="k")
    run.place(2)
    assert len(run.cancel("d1")) == 1
    assert run.cancel("d1") == [], "a second cancel changes nothing"
    assert len(run.cancel("d2")) == 2


def test_durability_22_children_survive_a_loss_of_their_parent() -> None:
    run = Lead()
    run.place(1)
    run.delegate(role="a"), run.delegate(role="b")
    run.place(2)
    run.lose()
    assert run.state.tasks["r.2"].live
    run.place(1)
    run.delegate(role="a")
    events = run.result(1)
    assert [type(event) for event in events] == [ev.ResultReceived], "a child has not stopped yet"
    stopped = {(effect.task_id, effect.attempt) for effect in run.opened(CancelAttempt)}
    assert stopped == {("r.1", 1), ("r.2", 1)}, "the child and the lost attempt are stopped"
    run.result(2)
    assert isinstance(run.log[-1], ev.RunEnded)
    assert run.state.state is TaskState.COMPLETED
    assert {task.state for task in run.state.tasks.values() if task.parent} == {TaskState.CANCELED}


def test_a_run_waits_for_stopping_tasks_for_a_limited_time() -> None:
    run = Lead()
    run.place(1)
    run.delegate()
    run.place(2)
    run.result(1)
    assert not run.state.ended
    run.after(CANCEL_GRACE + 0.1)
    assert run.state.state is TaskState.COMPLETED
    assert run.state.tasks["r.2"].state is TaskState.CANCELED


def test_durability_24_the_first_of_result_and_stop_wins() -> None:
    run = Lead()
    run.place(1)
    run.delegate(timeout=5.0)
    run.place(2)
    run.now += 6.0
    run.result(2)
    assert run.after(0.0) == []
    assert run.state.tasks["r.2"].state is TaskState.COMPLETED


def test_a_failed_child_is_its_parents_to_deal_with() -> None:
    run = Lead()
    run.place(1)
    run.delegate()
    run.place(2)
    run.result(2, TaskState.REJECTED)
    assert run.state.tasks["r.2"].state is TaskState.REJECTED
    assert run.state.ending is None


def test_a_delegated_task_gets_the_newest_upstream_answers() -> None:
    edges = (("a", "b"), ("b", "c"), ("a", "c"))
    for deep, roles in (((), ["b"]), (("c",), ["a", "b"])):
        run = Lead(edges=edges[:2], targets=("a", "b", "c"), all_ancestors=deep)
        run.place(1)
        seqs = {}
        for number, role in enumerate(("a", "a", "b", "c"), 2):
            run.delegate(role=role)
            run.place(number)
            if role != "c":
                run.result(number)
                seqs[role] = run.state.tasks[f"r.{number}"].result_seq
        assert list(run.state.tasks["r.5"].context) == [ContextRef(role, seqs[role]) for role in roles]


def test_a_failed_or_missing_answer_is_no_context() -> None:
    run = Lead(edges=(("a", "b"),), targets=("a", "b"))
    run.place(1)
    run.delegate(role="a")
    run.place(2)
    run.result(2, TaskState.FAILED)
    run.delegate(role="b")
    run.place(3)
    assert run.state.tasks["r.3"].context == ()
