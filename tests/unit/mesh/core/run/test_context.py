"""What a task is handed of the run's answers, by example; `test_engine` and `test_delegation` have the plain cases."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.decide.context import context_of
from archon_mesh.core.run.types import ContextRef, SessionContextRef
from tests.unit.mesh.core.run.delegating import Lead

DIAMOND = (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


def roles(run: Lead, number: int) -> list[str]:
    return [given.role for given in context_of(run.state, run.state.tasks[f"r.{number}"])]


def answered(run: Lead, *numbers: int) -> None:
    for number in numbers:
        run.place(number)
        run.result(number)


def test_of_a_diamond_the_last_is_handed_both_sides_and_all_ancestors_once() -> None:
    for deep, expected in (((), ["b", "c"]), (("d",), ["a", "b", "c"])):
        run = Lead(("a", "b", "c", "d"), edges=DIAMOND, all_ancestors=deep)
        answered(run, 1, 3, 2)
        assert roles(run, 4) == expected, "in dependency order, whoever was done first"


def test_a_role_without_predecessors_is_handed_nothing_though_it_asks_for_all() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"),), all_ancestors=("a",))
    assert roles(run, 1) == []


def test_what_is_handed_over_is_the_event_that_holds_the_answer() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"),))
    answered(run, 1)
    run.place(2)
    assert run.state.tasks["r.2"].context == (ContextRef("a", run.state.tasks["r.1"].result_seq),)


def test_a_delegated_task_is_handed_answers_of_the_pipeline_that_it_was_delegated_from() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"), ("a", "helper"), ("b", "helper")))
    answered(run, 1)
    run.place(2)
    run.delegate(2, "helper")
    assert roles(run, 3) == ["a"], "b itself has no answer yet"


def test_a_delegated_task_gets_the_newest_answer_of_a_role_however_deep_it_was_given() -> None:
    run = Lead(edges=(("a", "c"),), targets=("a", "b", "c"))
    run.place(1)
    run.delegate(role="a")
    answered(run, 2)
    run.delegate(role="b")
    run.place(3)
    run.delegate(3, "a")
    answered(run, 4)
    run.delegate(role="c")
    assert context_of(run.state, run.state.tasks["r.5"]) == (ContextRef("a", run.state.tasks["r.4"].result_seq),)


def test_answers_of_delegated_ancestors_come_in_dependency_order_and_others_never() -> None:
    run = Lead(edges=DIAMOND, targets=("a", "b", "c", "d", "stranger"), all_ancestors=("d",))
    run.place(1)
    for number, role in enumerate(("c", "stranger", "b", "a"), 2):
        run.delegate(role=role)
        answered(run, number)
    run.delegate(role="d")
    assert roles(run, 6) == ["a", "b", "c"]


def test_what_is_still_under_way_is_no_context_and_comes_with_the_next_attempt() -> None:
    run = Lead(edges=(("a", "b"),), targets=("a", "b"))
    run.place(1)
    run.delegate(role="a"), run.delegate(role="b")
    run.place(2, 3)
    assert roles(run, 3) == []
    run.result(2)
    run.lose(3)
    run.place(3)
    assert roles(run, 3) == ["a"]


def test_durability_16_before_the_runs_own_answers_stands_what_the_session_knew_and_each_reader_sees_its_own() -> None:
    outside = (SessionContextRef("x", 3, ("a", "b")), SessionContextRef("y", 1, ("b",)))
    run = Lead(("a", "b"), edges=(("a", "b"),), outside=outside)
    answered(run, 1)
    run.place(2)
    assert run.state.tasks["r.1"].context == (ContextRef("x", 0, 3, "s"),)
    assert run.state.tasks["r.2"].context == (
        ContextRef("x", 0, 3, "s"),
        ContextRef("y", 0, 1, "s"),
        ContextRef("a", run.state.tasks["r.1"].result_seq),
    )


def test_durability_16_every_attempt_is_given_the_same_of_the_session() -> None:
    run = Lead(("a",), outside=(SessionContextRef("x", 3, ("a",)),))
    run.place(1)
    run.lose(1)
    run.place(1)
    assert [event.context for event in run.log if isinstance(event, ev.Dispatched)] == [
        (ContextRef("x", 0, 3, "s"),)
    ] * 2


def test_an_answer_of_this_run_takes_the_place_of_the_sessions() -> None:
    run = Lead(edges=(("a", "c"),), targets=("a", "c"), outside=(SessionContextRef("a", 7, ("c",)),))
    run.place(1)
    run.delegate(role="c")
    assert context_of(run.state, run.state.tasks["r.2"]) == (ContextRef("a", 0, 7, "s"),), "it has none in this run yet"
    run.delegate(role="a")
    answered(run, 3)
    assert context_of(run.state, run.state.tasks["r.2"]) == (ContextRef("a", run.state.tasks["r.3"].result_seq),)
